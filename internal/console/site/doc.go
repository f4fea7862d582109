// Package site has the pages of a site's people: what their node was asked, what they decide about it, what it cost
// and what left. They work on the node's files, like the commands of teacher.
package site
