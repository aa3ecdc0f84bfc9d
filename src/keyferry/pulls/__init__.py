"""Pull images as the kubelet does, and keep its records of which pods may use an image of the node."""
