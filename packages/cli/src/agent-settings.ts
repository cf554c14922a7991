import { homedir } from "node:os";
import { join } from "node:path";
import type { Tool } from "./arguments.ts";
import type { JsonEdit } from "./json-edits.ts";
import type { TomlEdits } from "./toml-edits.ts";

/** The facts that an agent's configuration depends on. */
export interface AgentFacts {
  /** The gateway's address, without `/v1`. */
  gatewayUrl: string;
  /** The program and arguments that print a key. */
  helper: readonly [string, ...string[]];
  keyFile: string;
  model: string | undefined;
  /** The models that the agent may use. */
  models: readonly AgentModel[];
}

/** A model in the catalogue, with its limits in tokens if both are known. */
export type AgentModel = { id: string; limits?: { context: number; output: number } };

/** An agent's configuration file, and the values to set in it. */
export type AgentSettings = { file: string } & (
  | { format: "json"; edits: readonly JsonEdit[] }
  | { format: "toml"; edits: TomlEdits }
);

type Environment = Readonly<Record<string, string | undefined>>;

/** How often agents ask for a key again. After a renewal, the old key stays valid for 15 more minutes. */
const refreshMs = 300_000;

/**
 * Returns an agent's configuration file and the values to set in it. @param options.exists returns whether a file
 * exists
 */
export function agentSettings(
  tool: Tool,
  facts: AgentFacts,
  { environment = process.env, exists }: { environment?: Environment; exists: (file: string) => boolean },
): AgentSettings {
  switch (tool) {
    case "claude":
      return claudeSettings(facts, environment);
    case "codex":
      return codexSettings(facts, environment);
    case "opencode":
      return opencodeSettings(facts, { environment, exists });
  }
}

/**
 * `apiKeyHelper` runs in a shell, and its output is sent as both `X-Api-Key` and `Authorization: Bearer`
 * (https://code.claude.com/docs/en/settings). Claude Code runs it again after the time to live, or after a 401.
 */
function claudeSettings({ gatewayUrl, helper, model }: AgentFacts, environment: Environment): AgentSettings {
  const variables = {
    ANTHROPIC_BASE_URL: gatewayUrl,
    CLAUDE_CODE_API_KEY_HELPER_TTL_MS: String(refreshMs),
    // Claude Code also uses a small model, whose default may be missing from the catalogue.
    ...(model !== undefined && { ANTHROPIC_MODEL: model, ANTHROPIC_DEFAULT_HAIKU_MODEL: model }),
  };
  return {
    format: "json",
    file: join(environment.CLAUDE_CONFIG_DIR || join(homedir(), ".claude"), "settings.json"),
    edits: [
      { path: ["apiKeyHelper"], value: helper.map(shellQuoted).join(" ") },
      ...Object.entries(variables).map(([name, value]) => ({ path: ["env", name], value })),
    ],
  };
}

/**
 * Returns the settings for Codex. The TOML tables have the fields of `ModelProviderInfo` and `ModelProviderAuthInfo`
 * (https://github.com/openai/codex, codex-rs).
 */
function codexSettings({ gatewayUrl, helper, model }: AgentFacts, environment: Environment): AgentSettings {
  const [command, ...args] = helper;
  return {
    format: "toml",
    file: join(environment.CODEX_HOME || join(homedir(), ".codex"), "config.toml"),
    edits: {
      values: {
        model_provider: tomlText("gatehouse"),
        ...(model !== undefined && { model: tomlText(model) }),
      },
      tables: {
        "model_providers.gatehouse": [
          `name = ${tomlText("Gatehouse")}`,
          `base_url = ${tomlText(`${gatewayUrl}/v1`)}`,
          `wire_api = ${tomlText("responses")}`,
        ].join("\n"),
        "model_providers.gatehouse.auth": [
          `command = ${tomlText(command)}`,
          `args = [${args.map(tomlText).join(", ")}]`,
          "timeout_ms = 20000",
          `refresh_interval_ms = ${refreshMs}`,
        ].join("\n"),
      },
    },
  };
}

/**
 * opencode cannot run a command to get a key. It reads the key file only at its start, when it replaces `{file:…}` in
 * its configuration (https://opencode.ai/docs/config/).
 */
function opencodeSettings(
  { gatewayUrl, keyFile, model, models }: AgentFacts,
  { environment, exists }: { environment: Environment; exists: (file: string) => boolean },
): AgentSettings {
  const folder = join(environment.XDG_CONFIG_HOME || join(homedir(), ".config"), "opencode");
  const [plain, commented] = [join(folder, "opencode.json"), join(folder, "opencode.jsonc")];
  return {
    format: "json",
    file: environment.OPENCODE_CONFIG || (!exists(plain) && exists(commented) ? commented : plain),
    edits: [
      {
        path: ["provider", "gatehouse"],
        value: {
          npm: "@ai-sdk/openai-compatible",
          name: "Gatehouse",
          options: { baseURL: `${gatewayUrl}/v1`, apiKey: `{file:${keyFile}}` },
          // Without limits, opencode asks each model for 32,000 tokens and never compacts a conversation.
          models: Object.fromEntries(models.map(({ id, limits }) => [id, limits ? { limit: limits } : {}])),
        },
      },
      ...(model === undefined ? [] : [{ path: ["model"], value: `gatehouse/${model}` }]),
    ],
  };
}

function shellQuoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** Formats a basic string of TOML, which has the same escapes as JSON. */
function tomlText(text: string): string {
  return JSON.stringify(text);
}
