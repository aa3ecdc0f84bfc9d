"""The pods of a cluster: which wait for images, by cause; and whether all images can be pulled again."""
