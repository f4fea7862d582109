package etcdserver

import (
	"errors"
	"io"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestFatalErrorsOfEtcdEndNoProcess(t *testing.T) {
	for name, write := range map[string]func(*zap.Logger){
		"fatal": func(log *zap.Logger) { log.Fatal("cannot go on", zap.Error(io.ErrShortWrite)) },
		"panic": func(log *zap.Logger) { log.Panic("cannot go on", zap.Error(io.ErrShortWrite)) },
	} {
		core, logged := observer.New(zap.DebugLevel)
		for _, log := range []*zap.Logger{nil, zap.New(core)} {
			e := &Server{log: newEtcdLog()}
			if e.Err() != nil {
				t.Error("failed before it failed")
			}
			guarded := e.log.logger(log)
			guarded.Warn("not passed on")
			returned := false
			var wg sync.WaitGroup
			wg.Go(func() { write(guarded); returned = true })
			wg.Wait()
			testkit.Receive(t, e.Failed())
			if returned || !errors.Is(e.Err(), io.ErrShortWrite) {
				t.Errorf("%s: returned %v, error %v", name, returned, e.Err())
			}
		}
		if logged.Len() != 1 {
			t.Errorf("%s: %d lines logged", name, logged.Len())
		}
	}
}

// What etcd logs as errors at a start and a stop without trouble is dropped,
// and nothing else.
func TestHarmlessLinesAreDropped(t *testing.T) {
	fresh := zap.Error(errors.New("cannot detect storage schema version: missing term information"))
	closed := zap.Error(errors.New("mux: server closed"))
	for _, tc := range []struct {
		name    string
		closing bool
		message string
		field   zapcore.Field
		want    []bool // logged the first time, the second
	}{
		{"version of a fresh database", false, versionNotNoted, fresh, []bool{false, true}},
		{"version, another reason", false, versionNotNoted, zap.Error(io.ErrShortWrite), []bool{true, true}},
		{"version, no reason", false, versionNotNoted, zap.Skip(), []bool{true, true}},
		{"another message, same reason", false, "cannot detect the schema", fresh, []bool{true, true}},
		{"serving ends before the stop", false, servingEnded, closed, []bool{true, true}},
		{"serving ends at the stop", true, servingEnded, closed, []bool{false, false}},
		{"another error at the stop", true, "failed to close the backend", closed, []bool{true, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			core, logged := observer.New(zap.DebugLevel)
			quiet := newEtcdLog()
			quiet.closing.Store(tc.closing)
			log := quiet.logger(zap.New(core)).With(zap.String("member", "conclave"))
			for i, want := range tc.want {
				log.Error(tc.message, tc.field)
				lines := logged.TakeAll()
				if (len(lines) == 1) != want {
					t.Fatalf("time %d: %d lines logged, want one: %v", i+1, len(lines), want)
				}
				if want && (lines[0].Message != tc.message || lines[0].ContextMap()["member"] != "conclave") {
					t.Errorf("logged %+v", lines[0])
				}
			}
		})
	}
}

// A logger of several cores keeps their levels apart.
func TestLinesPassedOnReachEachCoreByItsLevel(t *testing.T) {
	all, loggedAll := observer.New(zap.DebugLevel)
	few, loggedFew := observer.New(zap.DPanicLevel)
	newEtcdLog().logger(zap.New(zapcore.NewTee(all, few))).Error("the disk is full")
	if loggedAll.Len() != 1 || loggedFew.Len() != 0 {
		t.Errorf("%d and %d lines logged, want 1 and 0", loggedAll.Len(), loggedFew.Len())
	}
}
