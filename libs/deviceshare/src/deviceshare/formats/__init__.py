"""The annotation formats of device plugins, one module per vendor. Other packages import the modules directly."""
