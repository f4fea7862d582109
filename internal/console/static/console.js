// A page that names a stream of events brings its parts marked data-live up to date when the stream says so. Without
// this script the person reloads the page.
"use strict";

const main = document.getElementById("main");
const announce = document.getElementById("announce");
let busy = false, again = false;

// The element that has the focus keeps it, where the new page has it too.
function focused() {
	const at = document.activeElement;
	if (!at || at === document.body) return () => {};
	const id = at.id, href = at.getAttribute("href");
	return () => {
		if (document.activeElement === at) return;
		const next = id ? document.getElementById(id)
			: [...main.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === href);
		if (next) next.focus({ preventScroll: true });
	};
}

async function refresh() {
	if (busy) { again = true; return; }
	busy = true;
	try {
		const answer = await fetch(location.href, { headers: { "X-Live": "1" } });
		if (answer.ok) {
			const page = new DOMParser().parseFromString(await answer.text(), "text/html");
			const restore = focused();
			let say = "";
			for (const part of main.querySelectorAll("[data-live]")) {
				const next = page.getElementById(part.id);
				if (!next || next.innerHTML === part.innerHTML) continue;
				// A form in which somebody is typing stays as it is.
				if (part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) continue;
				const before = part.querySelector("[data-say]"), after = next.querySelector("[data-say]");
				if (before && after && before.textContent !== after.textContent) say = after.textContent;
				part.replaceWith(document.adoptNode(next));
			}
			if (say) announce.textContent = say.trim();
			restore();
			main.dataset.updated = String(Date.now());
		}
	} catch { /* the console ended, or comes back */ }
	busy = false;
	if (again) { again = false; refresh(); }
}

if (main && main.dataset.events) {
	const stream = new EventSource(main.dataset.events);
	stream.addEventListener("change", refresh);
	stream.addEventListener("end", () => stream.close());
	addEventListener("pagehide", () => stream.close());
}

// Lists of choices apply at once; without this script their button does.
for (const form of document.querySelectorAll("form[data-now]")) {
	form.addEventListener("change", (e) => { if (e.target.matches("select")) form.requestSubmit(); });
}
