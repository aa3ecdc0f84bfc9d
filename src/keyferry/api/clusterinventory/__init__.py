"""The group multicluster.x-k8s.io: the clusters of an inventory."""
