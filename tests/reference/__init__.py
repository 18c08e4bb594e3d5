"""An independent reference: Baton's methods as plain NumPy loops in float64, written from the papers."""
