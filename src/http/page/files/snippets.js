// Writes the request of a tab as a program: curl, Python (requests) and JavaScript (fetch).

/** What is sent where: `fields` and `files` are lists of pairs; the key is a variable, never written out. */
export function snippets({ url, fields, files, output, json = false }) {
  return [
    { name: "curl", text: curl(url, fields, files, output, json) },
    { name: "Python", text: python(url, fields, files, output, json) },
    { name: "JavaScript", text: javascript(url, fields, files, output, json) },
  ];
}

const shell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
/** A file in `-F`: in quotes where curl would take `,`, `;`, a leading blank or a quote for its own syntax. */
const formFile = (name) => (/^[\w.-]+$/.test(name) ? `@${name}` : `@"${name.replaceAll(/["\\]/g, "\\$&")}"`);
const quoted = (text) => JSON.stringify(String(text));

function curl(url, fields, files, output, json) {
  const parts = [
    ...fields.map(([name, value]) => `  --form-string ${shell(`${name}=${value}`)} \\`),
    ...files.map(([name, file]) => `  -F ${shell(`${name}=${formFile(file)}`)} \\`),
  ];
  const end = json ? "" : `-o ${shell(output)} `;
  return ["curl --fail-with-body \\", "  -H \"Authorization: Bearer $BACKDROP_KEY\" \\", ...parts, `  ${end}${shell(url)}`].join("\n");
}

function python(url, fields, files, output, json) {
  const data = fields.map(([name, value]) => `        (${quoted(name)}, ${quoted(value)}),`);
  const opened = files.map(([name, file]) => `        ${quoted(name)}: open(${quoted(file)}, "rb"),`);
  return [
    "import os", "import requests", "",
    "reply = requests.post(", `    ${quoted(url)},`,
    "    headers={\"Authorization\": f\"Bearer {os.environ['BACKDROP_KEY']}\"},",
    ...(data.length ? ["    data=[", ...data, "    ],"] : []),
    "    files={", ...opened, "    },", "    timeout=300,", ")",
    "if not reply.ok:", "    raise SystemExit(reply.json()[\"error\"][\"message\"])",
    ...(json ? ["print(reply.json())"] : [`with open(${quoted(output)}, "wb") as file:`, "    file.write(reply.content)"]),
  ].join("\n");
}

function javascript(url, fields, files, output, json) {
  return [
    "import { openAsBlob } from \"node:fs\";",
    ...(json ? [] : ["import { writeFile } from \"node:fs/promises\";"]), "",
    "const form = new FormData();",
    ...fields.map(([name, value]) => `form.append(${quoted(name)}, ${quoted(value)});`),
    ...files.map(([name, file]) => `form.append(${quoted(name)}, await openAsBlob(${quoted(file)}), ${quoted(file)});`),
    `const reply = await fetch(${quoted(url)}, {`, "  method: \"POST\",",
    "  headers: { authorization: `Bearer ${process.env.BACKDROP_KEY}` },", "  body: form,", "});",
    "if (!reply.ok) throw new Error((await reply.json()).error.message);",
    json ? "console.log(await reply.json());" : `await writeFile(${quoted(output)}, Buffer.from(await reply.arrayBuffer()));`,
  ].join("\n");
}
