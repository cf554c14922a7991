import { homedir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type AgentFacts, agentSettings } from "./agent-settings.ts";
import { tools } from "./arguments.ts";

const facts: AgentFacts = {
  gatewayUrl: "https://ai.example.com/functions",
  helper: ["/opt/node", "/home/ann's/bin.js", "token", "claude"],
  keyFile: "/home/ann/.config/gatehouse/opencode.key",
  model: undefined,
  models: [{ id: "a", limits: { context: 128_000, output: 16_384 } }, { id: "b" }],
};
const settingsOf = (tool: (typeof tools)[number], { environment = {}, exists = () => false, model }: Parts = {}) =>
  agentSettings(tool, { ...facts, model }, { environment, exists });
interface Parts {
  environment?: Record<string, string>;
  exists?: (file: string) => boolean;
  model?: string;
}

describe("an agent's configuration file", () => {
  test.each([
    ["claude", {}, join(homedir(), ".claude/settings.json")],
    ["claude", { CLAUDE_CONFIG_DIR: "/c" }, "/c/settings.json"],
    ["codex", {}, join(homedir(), ".codex/config.toml")],
    ["codex", { CODEX_HOME: "/c" }, "/c/config.toml"],
    ["opencode", {}, join(homedir(), ".config/opencode/opencode.json")],
    ["opencode", { XDG_CONFIG_HOME: "/c" }, "/c/opencode/opencode.json"],
    ["opencode", { OPENCODE_CONFIG: "/c/mine.json", XDG_CONFIG_HOME: "/x" }, "/c/mine.json"],
  ] as const)("gatehouse finds the configuration file of %s in the environment %j: %s", (tool, environment, file) => {
    expect(settingsOf(tool, { environment }).file).toBe(file);
  });

  test("the configuration file of opencode is opencode.jsonc if only that file exists", () => {
    const environment = { XDG_CONFIG_HOME: "/c" };
    const only = (name: string) => settingsOf("opencode", { environment, exists: (file) => file.endsWith(name) }).file;
    expect(only(".jsonc")).toBe("/c/opencode/opencode.jsonc");
    expect(only("")).toBe("/c/opencode/opencode.json");
  });
});

describe("the agents' settings", () => {
  test("an agent's settings contain no key, and quote the helper command for a shell", () => {
    for (const tool of tools) expect(JSON.stringify(settingsOf(tool))).not.toContain("ttr_ai_");
    expect(settingsOf("claude")).toMatchObject({
      edits: [
        { path: ["apiKeyHelper"], value: `'/opt/node' '/home/ann'\\''s/bin.js' 'token' 'claude'` },
        { path: ["env", "ANTHROPIC_BASE_URL"], value: "https://ai.example.com/functions" },
        { path: ["env", "CLAUDE_CODE_API_KEY_HELPER_TTL_MS"], value: "300000" },
      ],
    });
  });

  test("an agent's settings name a model only if one was chosen", () => {
    expect(JSON.stringify(settingsOf("claude", { model: "m" }))).toContain('"ANTHROPIC_MODEL"],"value":"m"');
    expect(settingsOf("codex", { model: "m" })).toMatchObject({ edits: { values: { model: '"m"' } } });
    expect(settingsOf("codex")).toMatchObject({ edits: { values: { model_provider: '"gatehouse"' } } });
    expect(JSON.stringify(settingsOf("opencode", { model: "m" }))).toContain('"value":"gatehouse/m"');
  });

  test("the settings of opencode have the models' limits, because it otherwise asks for 32,000 tokens", () => {
    const models = { a: { limit: { context: 128_000, output: 16_384 } }, b: {} };
    expect(settingsOf("opencode").edits).toEqual([
      { path: ["provider", "gatehouse"], value: expect.objectContaining({ models }) },
    ]);
  });
});
