"""The other kinds that are registered in the kubelet's decoder.

If a document of one of these kinds is in place of a provider config or a plugin's
response, the kubelet decodes it strictly before it reports the wrong kind. The
top-level fields decide which of the two errors it reports.
"""

from __future__ import annotations

_META = ("kind", "apiVersion")
_RESPONSE = (*_META, "cacheKeyType", "cacheDuration", "auth")
_REQUEST = (*_META, "image")
_INTENT = (*_META, "image")
_RECORD = (*_META, "lastUpdatedTime", "imageRef", "credentialMapping")
_PROVIDERS = "credentialprovider.kubelet.k8s.io"
_CONFIGS = "kubelet.config.k8s.io"
_CONFIG = (*_META, "providers")

_KUBELET_FIELDS = """
enableServer staticPodPath podLogsDir syncFrequency fileCheckFrequency httpCheckFrequency staticPodURL
staticPodURLHeader address port readOnlyPort tlsCertFile tlsPrivateKeyFile tlsCipherSuites tlsMinVersion
tlsCurvePreferences rotateCertificates serverTLSBootstrap authentication authorization registryPullQPS
registryBurst eventRecordQPS eventBurst enableDebuggingHandlers enableContentionProfiling healthzPort
healthzBindAddress oomScoreAdj clusterDomain clusterDNS streamingConnectionIdleTimeout
nodeStatusUpdateFrequency nodeStatusReportFrequency nodeLeaseDurationSeconds imageMinimumGCAge
imageMaximumGCAge imageGCHighThresholdPercent imageGCLowThresholdPercent volumeStatsAggPeriod
kubeletCgroups systemCgroups cgroupRoot cgroupsPerQOS cgroupDriver cpuManagerPolicy
singleProcessOOMKill cpuManagerPolicyOptions cpuManagerReconcilePeriod memoryManagerPolicy
topologyManagerPolicy topologyManagerScope topologyManagerPolicyOptions qosReserved runtimeRequestTimeout
hairpinMode maxPods podCIDR podPidsLimit resolvConf runOnce cpuCFSQuota cpuCFSQuotaPeriod
nodeStatusMaxImages maxOpenFiles contentType kubeAPIQPS kubeAPIBurst serializeImagePulls
maxParallelImagePulls imagePullCredentialsVerificationPolicy preloadedImagesVerificationAllowlist
evictionHard evictionSoft evictionSoftGracePeriod evictionPressureTransitionPeriod
evictionMaxPodGracePeriod evictionMinimumReclaim mergeDefaultEvictionSettings podsPerCore
enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains iptablesMasqueradeBit
iptablesDropBit featureGates failSwapOn memorySwap containerLogMaxSize containerLogMaxFiles
containerLogMaxWorkers containerLogMonitorInterval configMapAndSecretChangeDetectionStrategy
systemReserved kubeReserved reservedSystemCPUs showHiddenMetricsForVersion systemReservedCgroup
kubeReservedCgroup enforceNodeAllocatable allowedUnsafeSysctls volumePluginDir providerID
kernelMemcgNotification logging enableSystemLogHandler enableSystemLogQuery shutdownGracePeriod
shutdownGracePeriodCriticalPods shutdownGracePeriodByPodPriority crashLoopBackOff reservedMemory
enableProfilingHandler enableDebugFlagsHandler seccompDefault memoryThrottlingFactor registerWithTaints
registerNode tracing localStorageCapacityIsolation containerRuntimeEndpoint imageServiceEndpoint
failCgroupV1 userNamespaces
""".split()  # noqa: SIM905 - a list of a hundred strings would be a page of quotes

_VERSIONS = ("v1", "v1beta1", "v1alpha1")
_KINDS: dict[tuple[str, str], tuple[str, ...]] = {
    (f"{_CONFIGS}/v1beta1", "KubeletConfiguration"): (*_META, *_KUBELET_FIELDS),
    (f"{_CONFIGS}/v1beta1", "SerializedNodeConfigSource"): (*_META, "source"),
    **{(f"{_CONFIGS}/{v}", "CredentialProviderConfig"): _CONFIG for v in _VERSIONS},
    **{(f"{_CONFIGS}/{v}", "ImagePullIntent"): _INTENT for v in _VERSIONS[1:]},
    **{(f"{_CONFIGS}/{v}", "ImagePulledRecord"): _RECORD for v in _VERSIONS[1:]},
    **{(f"{_PROVIDERS}/{v}", "CredentialProviderResponse"): _RESPONSE for v in _VERSIONS},
    **{(f"{_PROVIDERS}/{v}", "CredentialProviderRequest"): _REQUEST for v in _VERSIONS[1:]},
    (f"{_PROVIDERS}/v1", "CredentialProviderRequest"): (
        *_REQUEST,
        "serviceAccountToken",
        "serviceAccountAnnotations",
    ),
}
# Kinds that are registered in every version.
_UNVERSIONED: dict[str, tuple[str, ...]] = {
    "Status": (*_META, "metadata", "status", "message", "reason", "details", "code"),
    "APIVersions": (*_META, "versions", "serverAddressByClientCIDRs"),
    "APIGroupList": (*_META, "groups"),
    "APIGroup": (*_META, "name", "versions", "preferredVersion", "serverAddressByClientCIDRs"),
    "APIResourceList": (*_META, "groupVersion", "resources"),
}


def known_fields(api_version: str, kind: str) -> tuple[str, ...] | None:
    """Return the top-level fields of a kind that the kubelet's decoder knows, or None."""
    return _KINDS.get((api_version, kind)) or _UNVERSIONED.get(kind)
