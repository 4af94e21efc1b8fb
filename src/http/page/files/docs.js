// The reference: search, one language for all examples, and the address of this server in them.

const search = document.getElementById("search");
const sections = [...document.querySelectorAll("main section")].map((element) => ({ element, text: element.textContent.toLowerCase() }));
const links = [...document.querySelectorAll(".contents a")];

search.hidden = false;
search.labels[0].hidden = false;
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { element, text } of sections) {
    const fits = words.every((word) => text.includes(word));
    element.hidden = !fits;
    count += fits ? 1 : 0;
    const link = links.find((one) => one.hash === `#${element.id}`);
    if (link) link.parentElement.hidden = !fits;
  }
  for (const title of document.querySelectorAll(".contents h2")) {
    title.hidden = [...title.nextElementSibling.children].every((item) => item.hidden);
  }
  for (const title of document.querySelectorAll("main h2.part")) {
    let next = title.nextElementSibling;
    while (next && next.tagName === "SECTION" && next.hidden) next = next.nextElementSibling;
    title.hidden = !next || next.tagName !== "SECTION";
  }
  document.getElementById("found").textContent = words.length ? `${count} sections` : "";
});

const base = new URL(".", document.baseURI).href.replace(/\/$/, "");
const { server } = document.querySelector(".docs").dataset;
for (const code of document.querySelectorAll("pre code")) code.textContent = code.textContent.replaceAll(server, base);

const groups = [...document.querySelectorAll(".languages")];
const languages = [...groups[0].children].map((element) => element.dataset.language);

function choose(language) {
  for (const group of groups) {
    for (const block of group.querySelectorAll("[data-language]")) block.hidden = block.dataset.language !== language;
    for (const button of group.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.textContent === language));
  }
}

for (const group of groups) {
  const choice = document.createElement("div");
  choice.className = "choice";
  choice.setAttribute("role", "group");
  choice.setAttribute("aria-label", "Language");
  for (const language of languages) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = language;
    button.addEventListener("click", () => {
      // The button stays where it is, whatever the examples above it grow or shrink by.
      const { top } = button.getBoundingClientRect();
      choose(language);
      window.scrollBy(0, button.getBoundingClientRect().top - top);
    });
    choice.append(button);
  }
  group.prepend(choice);
  group.classList.add("chosen");
}
choose(languages[0]);
