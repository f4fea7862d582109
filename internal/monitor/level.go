package monitor

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"os"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// leastToken is how many characters a token has at least.
const leastToken = 16

// control is the handler of the port where the level is changed.
func (o Options) control(c Control) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /loglevel", o.Level)
	mux.HandleFunc("PUT /loglevel", o.changeLevel)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !bearer || !o.allows(c.TokenFile, shown) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send the token of http.control.token_file: Authorization: Bearer TOKEN",
				http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// allows compares digests, in a time that depends on neither.
func (o Options) allows(file, shown string) bool {
	raw, err := os.ReadFile(file)
	token := strings.TrimSpace(string(raw))
	if err != nil || len(token) < leastToken {
		o.Log.Warn("the log level cannot be changed: http.control.token_file cannot be read or is too short",
			zap.Int("least_characters", leastToken))
		return false
	}
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

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
		// Logged so that every level shows it.
		o.Log.Log(max(*want.Level, zap.WarnLevel), "log level changed",
			zap.Stringer("from", before), zap.Stringer("to", *want.Level), zap.String("by", r.RemoteAddr))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(want)
}
