package etcdserver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLog passes on what etcd logs as errors, without the lines that say
// nothing, and keeps its fatal errors from ending the process.
type etcdLog struct {
	once   sync.Once
	failed chan struct{}
	err    error // set before failed is closed

	closing   atomic.Bool // set when the server is told to stop
	unwritten atomic.Bool // the line about the fresh database was met
}

func newEtcdLog() *etcdLog { return &etcdLog{failed: make(chan struct{})} }

// logger returns the logger for etcd. Its fatal errors, after which etcd expects
// not to return, end the goroutine.
func (l *etcdLog) logger(log *zap.Logger) *zap.Logger {
	if log == nil {
		log = zap.NewNop()
	} else {
		log = log.WithOptions(
			zap.IncreaseLevel(zapcore.ErrorLevel),
			zap.WrapCore(func(c zapcore.Core) zapcore.Core { return quietCore{c, l} }),
		)
	}
	return log.WithOptions(zap.WithFatalHook(l), zap.WithPanicHook(l))
}

// OnWrite implements zapcore.CheckWriteHook.
func (l *etcdLog) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	l.once.Do(func() {
		l.err = errors.New("etcd: " + entry.Message)
		if cause := errorOf(fields); cause != nil {
			l.err = fmt.Errorf("etcd: %s: %w", entry.Message, cause)
		}
		close(l.failed)
	})
	runtime.Goexit()
}

const (
	// etcd's handlers log how they ended, also when they were told to.
	servingEnded = "setting up serving from embedded etcd failed."
	// etcd notes its version in the database as soon as it is known. A fresh
	// database holds nothing before its first write, some 100 ms later; etcd
	// tries again every few seconds.
	versionNotNoted = "failed to update storage version"
	nothingWritten  = "missing term information"
)

// harmless says whether an error is logged although all is well.
func (l *etcdLog) harmless(message string, fields []zapcore.Field) bool {
	switch message {
	case servingEnded:
		return l.closing.Load()
	case versionNotNoted:
		cause := errorOf(fields)
		return cause != nil && strings.Contains(cause.Error(), nothingWritten) &&
			l.unwritten.CompareAndSwap(false, true)
	}
	return false
}

// errorOf returns the error among the fields of a log line; nil for none.
func errorOf(fields []zapcore.Field) error {
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			return err
		}
	}
	return nil
}

// quietCore drops harmless lines.
type quietCore struct {
	zapcore.Core
	log *etcdLog
}

func (c quietCore) With(fields []zapcore.Field) zapcore.Core {
	return quietCore{c.Core.With(fields), c.log}
}

// Check leaves the decision to Write, which sees the fields.
func (c quietCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c quietCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if c.log.harmless(entry.Message, fields) {
		return nil
	}
	// Checked and not written at once: a core that stands for several decides
	// only when it is checked.
	if checked := c.Core.Check(entry, nil); checked != nil {
		checked.Write(fields...)
	}
	return nil
}
