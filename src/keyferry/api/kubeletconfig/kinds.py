"""The kinds that the kubelet's decoder knows, with their fields."""

from __future__ import annotations

from collections.abc import Iterable

from keyferry.api.codec import UNVERSIONED
from keyferry.api.credentialprovider import v1 as providers
from keyferry.api.kubeletconfig import records
from keyferry.api.kubeletconfig import v1 as configs
from keyferry.api.wire import WireValue

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

_KUBELET_KINDS = {"KubeletConfiguration": _KUBELET_FIELDS, "SerializedNodeConfigSource": ("source",)}
# The kinds that the kubelet's decoder knows, each with the versions that it is registered in.
_KINDS: dict[str, tuple[tuple[str, ...], type[WireValue]]] = {
    "CredentialProviderConfig": (configs.API_VERSIONS, configs.CredentialProviderConfig),
    "ImagePullIntent": (records.API_VERSIONS, records.ImagePullIntent),
    "ImagePulledRecord": (records.API_VERSIONS, records.ImagePulledRecord),
    "CredentialProviderResponse": (providers.API_VERSIONS, providers.CredentialProviderResponse),
    "CredentialProviderRequest": (providers.API_VERSIONS, providers.CredentialProviderRequest),
}


def known_fields(api_version: str, kind: str) -> tuple[str, ...] | None:
    """Return the top-level fields of a kind that the kubelet's decoder knows, or None.

    If a document of one of these kinds is in place of a provider config or a plugin's response, the kubelet decodes it
    strictly before it reports the wrong kind. Its fields decide which of the two errors it reports.
    """
    versions, cls = _KINDS.get(kind, ((), None))
    fields: Iterable[str] | None = UNVERSIONED.get(kind)
    if api_version == f"{configs.GROUP}/v1beta1" and kind in _KUBELET_KINDS:
        fields = _KUBELET_KINDS[kind]
    elif cls is not None and api_version in versions:
        declared = cls.wire_fields.values()
        fields = [each.name for each in declared if api_version not in each.absent_from]
    return None if fields is None else ("kind", "apiVersion", *fields)
