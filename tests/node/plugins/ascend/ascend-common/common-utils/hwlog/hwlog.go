// Package hwlog stands in for ascend-common's: it logs nothing.
package hwlog

import "context"

// LogConfig holds the settings that the plugin makes.
type LogConfig struct {
	OnlyToStdout bool
	LogLevel     int
}

// InitRunLogger succeeds.
func InitRunLogger(*LogConfig, context.Context) error { return nil }
