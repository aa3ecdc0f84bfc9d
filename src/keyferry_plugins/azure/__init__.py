"""What the Azure plugins are made of.

keyferry-acr uses ``config``, ``identity`` and ``registry``; keyferry-aks uses ``options``, ``login``, ``user`` and
``convert``; both use ``entra``, ``federation``, ``managed_identity``, ``signatures`` and ``clouds``.
"""
