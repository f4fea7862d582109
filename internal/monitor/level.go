package monitor

import (
	"encoding/json"
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// changeLevel takes {"level":"debug"}. It takes no level that log.level does not: above
// error, errors would go unseen.
func (o Options) changeLevel(w http.ResponseWriter, r *http.Request) {
	var want struct {
		Level *zapcore.Level `json:"level"`
	}
	err := json.NewDecoder(r.Body).Decode(&want)
	if err != nil || want.Level == nil || *want.Level < zap.DebugLevel || *want.Level > zap.ErrorLevel {
		http.Error(w, `send {"level":"..."} with debug, info, warn or error`, http.StatusBadRequest)
		return
	}
	before := o.Level.Level()
	if before != *want.Level {
		o.Level.SetLevel(*want.Level)
		// Whatever the level is now, the change is seen.
		o.Log.Log(max(*want.Level, zap.WarnLevel), "log level changed",
			zap.Stringer("from", before), zap.Stringer("to", *want.Level), zap.String("by", r.RemoteAddr))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(want)
}
