"""The base layer: values, documents, text, secrets, files and clocks. It imports nothing from the layers above."""
