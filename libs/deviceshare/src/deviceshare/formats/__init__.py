"""The device plugins' annotation formats, one module per vendor. Other packages import the modules themselves."""
