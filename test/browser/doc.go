// Package browser looks at the console in a real Chromium: each role's main way, accessibility by axe-core, and
// pictures of the pages.
//
//	(cd test/browser && npm ci --ignore-scripts)             # axe-core, once
//	go test ./test/browser -shots /tmp/shots              # pictures at 1280 and 390 pixels
//
// Where there is no Chromium, or no axe-core, the tests say so and are skipped.
package browser
