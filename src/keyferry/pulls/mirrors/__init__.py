"""Where a container runtime goes for an image: the mirrors in its files, and who gets the kubelet's credential."""
