// Package browser tests the console in a real Chromium: each role's main path, accessibility with axe-core, and
// screenshots of the pages.
//
//	(cd test/browser && npm ci --ignore-scripts)             # axe-core, once
//	go test ./test/browser -shots /tmp/shots              # screenshots at 1280 and 390 pixels
//
// Without Chromium or axe-core the tests are skipped with a message.
package browser
