// Package site has the pages of the people of a site: what their node was asked, what they decide about it, what it
// cost and what left. They work on the files of the node, as the commands of teacher do.
package site
