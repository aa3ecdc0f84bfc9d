# completion of keyferry for bash
_keyferry() {
    local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W 'get explain can-pull pull doctor lint diff records kube plugin agent bridge demo completion --help --version' -- "$word"))
        return
    fi
    case "$COMP_CWORD:$command" in
    "2:records") COMPREPLY=($(compgen -W 'list show who plan prune recover --help' -- "$word")); return ;;
    "2:kube") COMPREPLY=($(compgen -W 'token whoami raw exec-info contexts explain --help' -- "$word")); return ;;
    "2:plugin") COMPREPLY=($(compgen -W 'new test try trace install --help' -- "$word")); return ;;
    "2:agent") COMPREPLY=($(compgen -W 'run status reload config page --help' -- "$word")); return ;;
    "2:bridge") COMPREPLY=($(compgen -W 'kubelet docker --help' -- "$word")); return ;;
    esac
    case "$command" in
    records|kube|plugin|agent|bridge) command="$command ${COMP_WORDS[2]}" ;;
    esac
    [ "$previous" = -o ] && previous=--output
    case "$command:$previous" in
    "get:--output") COMPREPLY=($(compgen -W 'table wide json yaml dockerconfig env' -- "$word")); return ;;
    "get:--env-from") COMPREPLY=($(compgen -W 'kubelet self' -- "$word")); return ;;
    "get:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "get:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "explain:--output") COMPREPLY=($(compgen -W 'table wide json yaml' -- "$word")); return ;;
    "explain:--env-from") COMPREPLY=($(compgen -W 'kubelet self' -- "$word")); return ;;
    "explain:--policy") COMPREPLY=($(compgen -W 'NeverVerify NeverVerifyPreloadedImages NeverVerifyAllowlistedImages AlwaysVerify' -- "$word")); return ;;
    "explain:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "explain:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "can-pull:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "can-pull:--env-from") COMPREPLY=($(compgen -W 'kubelet self' -- "$word")); return ;;
    "can-pull:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "can-pull:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "pull:--output") COMPREPLY=($(compgen -W 'table wide json yaml' -- "$word")); return ;;
    "pull:--pull-policy") COMPREPLY=($(compgen -W 'Always IfNotPresent Never' -- "$word")); return ;;
    "pull:--policy") COMPREPLY=($(compgen -W 'NeverVerify NeverVerifyPreloadedImages NeverVerifyAllowlistedImages AlwaysVerify' -- "$word")); return ;;
    "pull:--env-from") COMPREPLY=($(compgen -W 'kubelet self' -- "$word")); return ;;
    "pull:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "doctor:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "doctor:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "lint:--severity") COMPREPLY=($(compgen -W 'error warning info' -- "$word")); return ;;
    "lint:--list") COMPREPLY=($(compgen -W 'KF050 KF101 KF102 KF103 KF104 KF105 KF106 KF107 KF108 KF109 KF110 KF111 KF112 KF120 KF121 KF122 KF123 KF124 KF125 KF126 KF130 KF131 KF132 KF133 KF134 KF135 KF136 KF137 KF138 KF140 KF141 KF142 KF150 KF151 KF152 KF153 KF154 KF155 KF156 KF157 KF158 KF159 KF160 KF161 KF162 KF163 KF164 KF165 KF166 KF167 KF168 KF169 KF170 KF171 KF172 KF173 KF174 KF175 KF176 KF177 KF178 KF179 KF180 KF181 KF182 KF183 KF184 KF190 KF191 KF192 KF193 KF201 KF202 KF203 KF204 KF205 KF210 KF211 KF212 KF213 KF214 KF215 KF216 KF217 KF218 KF219 KF220 KF221 KF222 KF223 KF224 KF225 KF226 KF227 KF228 KF229 KF250 KF251 KF252 KF253 KF254 KF255 KF260 KF261 KF262 KF263 KF264 KF265 KF270 KF271 KF272 KF273 KF274 KF275 KF276 KF277 KF278 KF279 KF280 KF281 KF282 KF283 KF284 KF285 KF286 KF287 KF288 KF289 KF290 KF291 KF301 KF302 KF303 KF304 KF310 KF311 KF312 KF313 KF314 KF350 KF351 KF352 KF353 KF360 KF361 KF362 KF363 KF364 KF365 KF401 KF402 KF403 KF404 KF410 KF411 KF412 KF413 KF414 KF415 KF416 KF417 KF420 KF421 KF422 KF423 KF424 KF425 KF426 KF427 KF428 KF429 KF501 KF502 KF503 KF504 KF505 KF510 KF511 KF512 KF513 KF550 KF551 KF552 KF601 KF602 KF603 KF604 KF605 KF606 KF607 KF608 KF609 KF610 KF611 KF612 KF613 KF650 KF651 KF652 KF653 KF654 KF655 KF656 KF657 KF658 KF659 KF670 KF671 KF672 KF673 KF674 KF675 KF676 KF677 KF678 KF679 KF680 KF701 KF702 KF710 KF750' -- "$word")); return ;;
    "lint:--output") COMPREPLY=($(compgen -W 'text table json sarif junit github diff' -- "$word")); return ;;
    "lint:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "diff:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "diff:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "records:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "records list:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "records list:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "records show:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "records show:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "records who:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "records who:--policy") COMPREPLY=($(compgen -W 'NeverVerify NeverVerifyPreloadedImages NeverVerifyAllowlistedImages AlwaysVerify' -- "$word")); return ;;
    "records who:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "records plan:--policy") COMPREPLY=($(compgen -W 'NeverVerify NeverVerifyPreloadedImages NeverVerifyAllowlistedImages AlwaysVerify' -- "$word")); return ;;
    "records plan:--from-policy") COMPREPLY=($(compgen -W 'NeverVerify NeverVerifyPreloadedImages NeverVerifyAllowlistedImages AlwaysVerify' -- "$word")); return ;;
    "records plan:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "records plan:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "records prune:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "records prune:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "records recover:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "records recover:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "kube:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "kube token:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "kube token:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "kube whoami:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "kube whoami:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "kube whoami:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "kube raw:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "kube raw:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "kube exec-info:--output") COMPREPLY=($(compgen -W 'table raw json yaml' -- "$word")); return ;;
    "kube exec-info:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "kube exec-info:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "kube contexts:--output") COMPREPLY=($(compgen -W 'table wide name json yaml' -- "$word")); return ;;
    "kube contexts:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "kube explain:--output") COMPREPLY=($(compgen -W 'table wide json yaml' -- "$word")); return ;;
    "kube explain:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "kube explain:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "plugin:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "plugin new:--kind") COMPREPLY=($(compgen -W 'image cluster' -- "$word")); return ;;
    "plugin new:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "plugin test:--output") COMPREPLY=($(compgen -W 'table json junit' -- "$word")); return ;;
    "plugin test:--only") COMPREPLY=($(compgen -W 'KP101 KP102 KP103 KP104 KP105 KP106 KP107 KP108 KP109 KP110 KP111 KP112 KP113 KP114 KP115 KP116 KP117 KP118 KP119 KP120 KP121 KP122 KP123 KP124 KP125 KP126 KP127 KP128 KP129 KP130 KP131 KP132 KP140 KP141 KP142 KP143 KP144 KP145 KP146 KP147 KP148 KP150 KP151 KP201 KP202 KP203 KP204 KP205 KP206 KP207 KP208 KP209 KP210 KP211 KP212 KP213 KP214 KP215 KP216 KP217 KP218 KP219 KP220 KP221 KP222 KP223 KP251 KP301 KP302 KP303 KP304 KP305 KP306 KP310 KP311 KP312 KP313 KP320 KP321 KP322 KP323 KP324 KP325 KP326 KP327 KP328 KP329 KP330 KP331 KP332' -- "$word")); return ;;
    "plugin test:--skip") COMPREPLY=($(compgen -W 'KP101 KP102 KP103 KP104 KP105 KP106 KP107 KP108 KP109 KP110 KP111 KP112 KP113 KP114 KP115 KP116 KP117 KP118 KP119 KP120 KP121 KP122 KP123 KP124 KP125 KP126 KP127 KP128 KP129 KP130 KP131 KP132 KP140 KP141 KP142 KP143 KP144 KP145 KP146 KP147 KP148 KP150 KP151 KP201 KP202 KP203 KP204 KP205 KP206 KP207 KP208 KP209 KP210 KP211 KP212 KP213 KP214 KP215 KP216 KP217 KP218 KP219 KP220 KP221 KP222 KP223 KP251 KP301 KP302 KP303 KP304 KP305 KP306 KP310 KP311 KP312 KP313 KP320 KP321 KP322 KP323 KP324 KP325 KP326 KP327 KP328 KP329 KP330 KP331 KP332' -- "$word")); return ;;
    "plugin test:--severity") COMPREPLY=($(compgen -W 'error warning info' -- "$word")); return ;;
    "plugin test:--list") COMPREPLY=($(compgen -W 'KP101 KP102 KP103 KP104 KP105 KP106 KP107 KP108 KP109 KP110 KP111 KP112 KP113 KP114 KP115 KP116 KP117 KP118 KP119 KP120 KP121 KP122 KP123 KP124 KP125 KP126 KP127 KP128 KP129 KP130 KP131 KP132 KP140 KP141 KP142 KP143 KP144 KP145 KP146 KP147 KP148 KP150 KP151 KP201 KP202 KP203 KP204 KP205 KP206 KP207 KP208 KP209 KP210 KP211 KP212 KP213 KP214 KP215 KP216 KP217 KP218 KP219 KP220 KP221 KP222 KP223 KP251 KP301 KP302 KP303 KP304 KP305 KP306 KP310 KP311 KP312 KP313 KP320 KP321 KP322 KP323 KP324 KP325 KP326 KP327 KP328 KP329 KP330 KP331 KP332' -- "$word")); return ;;
    "plugin test:--kind") COMPREPLY=($(compgen -W 'image cluster' -- "$word")); return ;;
    "plugin test:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "plugin test:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "plugin try:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "plugin try:--env-from") COMPREPLY=($(compgen -W 'kubelet self' -- "$word")); return ;;
    "plugin try:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "plugin try:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "plugin trace:--output") COMPREPLY=($(compgen -W 'json text' -- "$word")); return ;;
    "plugin trace:--kind") COMPREPLY=($(compgen -W 'image cluster' -- "$word")); return ;;
    "plugin trace:--context") COMPREPLY=($(compgen -W "$(keyferry kube contexts -o name 2>/dev/null)" -- "$word")); return ;;
    "plugin trace:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "plugin install:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "agent:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "agent run:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "agent status:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "agent status:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "agent reload:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "agent config:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "agent config:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "agent page:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "bridge:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "bridge kubelet:--shim") COMPREPLY=($(compgen -W 'native python' -- "$word")); return ;;
    "bridge kubelet:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "bridge kubelet:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "bridge docker:--output") COMPREPLY=($(compgen -W 'table json yaml' -- "$word")); return ;;
    "bridge docker:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "demo:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    "completion:--color") COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    esac
    case "$command:$word" in
    "get:"-*) COMPREPLY=($(compgen -W '--output --reveal --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --namespace --filename --secret --docker-config --service-account --service-account-token --timeout --withhold-env --env-from --agent --here --kubeconfig --context --request-token --verbose --color --help' -- "$word")); return ;;
    "explain:"-*) COMPREPLY=($(compgen -W '--output --no-run --check-registry --all-patterns --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --namespace --filename --secret --docker-config --service-account --service-account-token --timeout --withhold-env --env-from --agent --ca-file --insecure --registry-timeout --hosts-dir --registries-conf --root --policy --allow --cri --image-id --here --kubeconfig --context --request-token --verbose --color --help' -- "$word")); return ;;
    "can-pull:"-*) COMPREPLY=($(compgen -W '--output --ca-file --insecure --registry-timeout --hosts-dir --registries-conf --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --namespace --filename --secret --docker-config --service-account --service-account-token --timeout --withhold-env --env-from --agent --here --kubeconfig --context --request-token --verbose --color --help' -- "$word")); return ;;
    "pull:"-*) COMPREPLY=($(compgen -W '--output --cri --to --platform --ca-file --insecure --pull-policy --parallel --pull-timeout --no-evict --preload --no-kubelet --quiet --root --policy --allow --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --namespace --filename --secret --docker-config --service-account --service-account-token --timeout --withhold-env --env-from --agent --verbose --color --help' -- "$word")); return ;;
    "doctor:"-*) COMPREPLY=($(compgen -W '--output --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --root --hosts-dir --registries-conf --kubernetes --online --ca-file --registry-timeout --verbose --color --help' -- "$word")); return ;;
    "lint:"-*) COMPREPLY=($(compgen -W '--bin-dir --image-credential-provider-bin-dir --kubernetes --feature-gates --severity --strict --fix --elsewhere --rbac --list --output --verbose --color --help' -- "$word")); return ;;
    "diff:"-*) COMPREPLY=($(compgen -W '--images --output --verbose --color --help' -- "$word")); return ;;
    "records list:"-*) COMPREPLY=($(compgen -W '--output --root --reveal --verbose --color --help' -- "$word")); return ;;
    "records show:"-*) COMPREPLY=($(compgen -W '--output --root --reveal --verbose --color --help' -- "$word")); return ;;
    "records who:"-*) COMPREPLY=($(compgen -W '--output --root --reveal --policy --allow --verbose --color --help' -- "$word")); return ;;
    "records plan:"-*) COMPREPLY=($(compgen -W '--policy --allow --from-policy --from-allow --filename --secret --images --cri --image-id --output --root --verbose --color --help' -- "$word")); return ;;
    "records prune:"-*) COMPREPLY=($(compgen -W '--images --cri --image-id --until --yes --output --root --no-kubelet --verbose --color --help' -- "$word")); return ;;
    "records recover:"-*) COMPREPLY=($(compgen -W '--images --cri --image-id --yes --output --root --no-kubelet --verbose --color --help' -- "$word")); return ;;
    "kube token:"-*) COMPREPLY=($(compgen -W '--reveal --kubeconfig --context --cluster --user --proxy-url --trust --timeout --verbose --color --help' -- "$word")); return ;;
    "kube whoami:"-*) COMPREPLY=($(compgen -W '--output --kubeconfig --context --cluster --user --proxy-url --trust --timeout --verbose --color --help' -- "$word")); return ;;
    "kube raw:"-*) COMPREPLY=($(compgen -W '--kubeconfig --context --cluster --user --proxy-url --trust --timeout --verbose --color --help' -- "$word")); return ;;
    "kube exec-info:"-*) COMPREPLY=($(compgen -W '--output --reveal --kubeconfig --context --cluster --user --proxy-url --verbose --color --help' -- "$word")); return ;;
    "kube contexts:"-*) COMPREPLY=($(compgen -W '--output --kubeconfig --verbose --color --help' -- "$word")); return ;;
    "kube explain:"-*) COMPREPLY=($(compgen -W '--output --no-run --namespace --kubeconfig --context --cluster --user --proxy-url --trust --timeout --verbose --color --help' -- "$word")); return ;;
    "plugin new:"-*) COMPREPLY=($(compgen -W '--kind --preset --registry --issuer --audience --param --param-annotation --param-file --param-env --subject-from --subject-file --subject-variable --cache-key-type --ca-file --to --verbose --color --help' -- "$word")); return ;;
    "plugin test:"-*) COMPREPLY=($(compgen -W '--image --output --junit --only --skip --severity --verbose --strict --list --kind --arg --env --api-version --timeout --config --provider --service-account-token-file --annotation --kubeconfig --context --user --trust --color --help' -- "$word")); return ;;
    "plugin try:"-*) COMPREPLY=($(compgen -W '--service-account --pod --provider --output --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --timeout --withhold-env --env-from --kubeconfig --context --cluster --user --proxy-url --trust --ca-file --insecure --registry-timeout --hosts-dir --registries-conf --verbose --color --help' -- "$word")); return ;;
    "plugin trace:"-*) COMPREPLY=($(compgen -W '--output --out --replay --kind --arg --env --api-version --timeout --config --provider --service-account-token-file --annotation --kubeconfig --context --user --trust --verbose --color --help' -- "$word")); return ;;
    "plugin install:"-*) COMPREPLY=($(compgen -W '--bin-dir --as --upstream-name --federation-config --config --force --verbose --color --help' -- "$word")); return ;;
    "agent run:"-*) COMPREPLY=($(compgen -W '--agent-config --socket --socket-mode --socket-group --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --plugin-timeout --refresh-ahead --refresh-idle --cache-entries --cache-bytes --connections --watch --hand-over --stop-timeout --page --metrics --log-level --log-format --verbose --color --help' -- "$word")); return ;;
    "agent status:"-*) COMPREPLY=($(compgen -W '--output --socket --watch --verbose --color --help' -- "$word")); return ;;
    "agent reload:"-*) COMPREPLY=($(compgen -W '--socket --verbose --color --help' -- "$word")); return ;;
    "agent config:"-*) COMPREPLY=($(compgen -W '--output --agent-config --socket --socket-mode --socket-group --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --plugin-timeout --refresh-ahead --refresh-idle --cache-entries --cache-bytes --connections --watch --hand-over --stop-timeout --page --metrics --log-level --log-format --verbose --color --help' -- "$word")); return ;;
    "agent page:"-*) COMPREPLY=($(compgen -W '--socket --open --verbose --color --help' -- "$word")); return ;;
    "bridge kubelet:"-*) COMPREPLY=($(compgen -W '--all --in-front-of --beside --plugin --match-images --replace-others --dry-run --socket --shim --native --agent-user --output --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --verbose --color --help' -- "$word")); return ;;
    "bridge docker:"-*) COMPREPLY=($(compgen -W '--dry-run --containers --docker-config --registries-dir --output --config --image-credential-provider-config --bin-dir --image-credential-provider-bin-dir --verbose --color --help' -- "$word")); return ;;
    "demo:"-*) COMPREPLY=($(compgen -W '--all --page --keep --verbose --color --help' -- "$word")); return ;;
    "completion:"-*) COMPREPLY=($(compgen -W '--verbose --color --help' -- "$word")); return ;;
    esac
    case "$command:$COMP_CWORD" in
    "plugin install:3") COMPREPLY=($(compgen -W 'ecr gcr acr static docker-helper federate eks gke aks oidc' -- "$word")); return ;;
    "bridge kubelet:3") COMPREPLY=($(compgen -W 'install uninstall status' -- "$word")); return ;;
    "bridge docker:3") COMPREPLY=($(compgen -W 'install uninstall status' -- "$word")); return ;;
    "completion:2") COMPREPLY=($(compgen -W 'bash zsh fish' -- "$word")); return ;;
    esac
    COMPREPLY=($(compgen -f -- "$word"))
}
complete -o filenames -o bashdefault -F _keyferry keyferry
