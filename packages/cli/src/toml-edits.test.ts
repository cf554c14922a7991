import { describe, expect, test } from "vitest";
import { applyTomlEdits, hasInlineTable, undoTomlEdits } from "./toml-edits.ts";

const edits = {
  values: { model_provider: '"gatehouse"' },
  tables: {
    "model_providers.gatehouse": 'name = "Gatehouse"\n',
    "model_providers.gatehouse.auth": 'command = "node"\nargs = ["a", "b"]\n',
  },
};

const typical = `# Mine
model = "gpt-5" # kept
notify = [
  "[not a header]",
]

[projects."/home/ann/[x]"]
trust_level = "trusted"
prompt = """
[model_providers.gatehouse]
model_provider = "text"
"""

# About the next table
[mcp_servers.docs]
command = "docs"
`;

describe("edits of a TOML text", () => {
  test("TOML edits add values at the beginning and tables at the end, and keep every other line", () => {
    const { text } = applyTomlEdits(typical, { edits });
    expect(text).toBe(`model_provider = "gatehouse"
${typical}
[model_providers.gatehouse]
name = "Gatehouse"

[model_providers.gatehouse.auth]
command = "node"
args = ["a", "b"]
`);
  });

  test.each([
    [""],
    [typical],
    ['model_provider = "openai" # mine\nmodel = "o3"\n'],
    ['model = "o3"\n\n[model_providers.gatehouse]\nname = "Mine"\n# about the next\n\n[tui]\ntheme = "x"'],
    ['[model_providers."gatehouse"]\nname = "Mine"\nquery_params = {\n  a = "]"\n}\n'],
    ["a = '''\n[tui]\n'''\nb = [ # ]\n 1,\n]\n"],
    ["\n\n# only comments"],
  ])("TOML edits can be undone, and change nothing when repeated: %j", (source) => {
    const first = applyTomlEdits(source, { edits });
    expect(applyTomlEdits(first.text, { edits, previous: first.undo })).toEqual(first);
    expect(undoTomlEdits(first.text, first.undo).trimEnd()).toBe(source.trimEnd());
  });

  test("TOML edits are not undone if somebody has changed the lines since", () => {
    const { text, undo } = applyTomlEdits(typical, { edits });
    const changed = text.replace('model_provider = "gatehouse"', 'model_provider = "other"');
    expect(undoTomlEdits(changed, undo)).toBe(`model_provider = "other"\n${typical}`);
  });

  test.each([
    ['[projects."/home/ann/[slug]"]\ntrust_level = "trusted"\n'],
    ["[projects.'/srv/a]']\ntrust_level = \"trusted\"\n"],
    ['[[hooks."a[0]"]] # [x]\nrun = 1\n'],
  ])("reapplying or undoing TOML edits keeps tables that were added below the edits: %j", (added) => {
    const { text, undo } = applyTomlEdits("", { edits });
    const grown = `${text}\n${added}`;
    expect(applyTomlEdits(grown, { edits, previous: undo }).text).toContain(added);
    expect(undoTomlEdits(grown, undo).trim()).toBe(added.trim());
  });

  test.each([
    ['[model_providers]\ngatehouse = { name = "x" }\n', true],
    ['[model_providers]\n"gatehouse".name = "x"\n', true],
    ['model_providers.gatehouse.name = "x"\n', true],
    ['[model_providers]\nmine = { name = "x" }\n', false],
    ['[model_providers.gatehouse]\nname = "x"\n', false],
  ])("detects whether %j defines the gatehouse provider within another table: %j", (source, expected) => {
    expect(hasInlineTable(source, "model_providers.gatehouse")).toBe(expected);
  });

  test.each([
    ['model_providers = { mine = { name = "x" } }\n', true],
    ['model_providers.mine.name = "x"\n', true],
    ['[model_providers.mine]\nname = "x"\n', false],
    ["[tui]\nmodel_providers = 1\n", false],
  ])("detects whether %j defines model providers without a table header: %j", (source, expected) => {
    expect(hasInlineTable(source, "model_providers")).toBe(expected);
  });
});
