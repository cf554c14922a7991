import { readFileSync } from "node:fs";
import path from "node:path";
import type { Feature } from "./checks.ts";

export type Runtime = "node" | "python" | "java" | "go";

/** A published client, and a program that uses the client as the client's documentation shows. */
export type Client = {
  name: string;
  runtime: Runtime;
  program: string;
  args?: readonly string[];
  /** The file that pins the language's clients to exact versions. */
  manifest: string;
  /** The client's name in the manifest. */
  package: string;
  /** The only platform on which the client is installed, as Node names it. */
  platform?: string;
  /** The text by which the client's block in docs/clients.md is found. */
  snippet?: string;
  /** The models to use instead of the usual ones, if the endpoint that the client calls serves only certain models. */
  models?: readonly string[];
  lacks?: readonly Feature[];
};

const node = (name: string, program: string, packageName: string): Client => ({
  name,
  runtime: "node",
  program: `js/${program}.mjs`,
  manifest: "js/package.json",
  package: packageName,
});
const python = (name: string, program: string, packageName: string): Client => ({
  name,
  runtime: "python",
  program: `python/${program}_client.py`,
  manifest: "python/pyproject.toml",
  package: packageName,
});

const messagesModels = ["demo-messages"];

export const clients: readonly Client[] = [
  node("openai-node", "openai", "openai"),
  node("ai-sdk-7", "ai-sdk", "ai"),
  { ...node("ai-sdk-6", "ai-sdk", "ai-6"), args: ["-6"] },
  { ...node("langchain-js", "langchain", "@langchain/openai"), snippet: 'from "@langchain/openai"' },
  { ...node("openai-agents-js", "openai-agents", "@openai/agents"), snippet: 'from "@openai/agents"' },
  node("mastra", "mastra", "@mastra/core"),
  { ...node("anthropic-node", "anthropic", "@anthropic-ai/sdk"), models: messagesModels },
  {
    // The Linux binary that `@anthropic-ai/claude-code` runs. Claude Code always streams.
    ...node("claude-code", "claude-code", "@anthropic-ai/claude-code-linux-x64"),
    platform: "linux-x64",
    models: messagesModels,
    lacks: ["plain", "structured"],
  },
  // Codex always streams.
  { ...node("codex", "codex", "@openai/codex"), snippet: "codex exec", lacks: ["plain"] },
  {
    // The binary that `opencode-ai` runs here. Locking `opencode-ai` itself would require the packages of every
    // platform, which some registries lack. This coding agent always streams on the command line and has no option for
    // a schema.
    ...node("opencode", "opencode", "opencode-linux-x64-baseline"),
    platform: "linux-x64",
    lacks: ["plain", "structured"],
  },
  { ...python("openai-python", "openai", "openai"), snippet: "from openai import" },
  { ...python("anthropic-python", "anthropic", "anthropic"), models: messagesModels, snippet: "import anthropic" },
  { ...python("langchain-python", "langchain", "langchain-openai"), snippet: "from langchain_openai import" },
  { ...python("llamaindex", "llamaindex", "llama-index-llms-openai"), snippet: "from llama_index.llms" },
  python("pydantic-ai", "pydantic_ai", "pydantic-ai-slim"),
  python("instructor", "instructor", "instructor"),
  python("openai-agents-python", "openai_agents", "openai-agents"),
  { ...python("litellm", "litellm", "litellm"), snippet: "import litellm" },
  python("crewai", "crewai", "crewai"),
  {
    name: "openai-go",
    runtime: "go",
    program: "go/main.go",
    manifest: "go/go.mod",
    package: "github.com/openai/openai-go/v3",
  },
  {
    name: "openai-java",
    runtime: "java",
    program: "java/OpenAIJava.java",
    manifest: "java/pom.xml",
    package: "openai-java",
  },
];

export const sourceDir = import.meta.dirname;

export const readSource = (file: string): string => readFileSync(path.join(sourceDir, file), "utf8");

/** @throws Error if the manifest does not pin the client to an exact version */
export function versionOf(client: Client): string {
  const { package: name, runtime, manifest } = client;
  const pin = {
    node: `"${name}": "(?:npm:[^"]+@)?(\\d[\\w.-]*)"`,
    python: `^${name}(?:\\[\\w+\\])?==(\\d[\\w.]*)$`,
    java: `<artifactId>${name}</artifactId>\\s*<version>(\\d[\\w.-]*)</version>`,
    go: `${name} v(\\d[\\w.-]*)`,
  }[runtime];
  const version = new RegExp(pin, "m").exec(pinnedManifest(client))?.[1];
  if (!version) throw new Error(`${manifest} does not pin ${name} to an exact version.`);
  return version;
}

/** Returns the manifest from which a client is installed: for Python, the requirements of the client's group. */
export function pinnedManifest({ runtime, program, manifest }: Client): string {
  const text = readSource(manifest);
  if (runtime !== "python") return text;
  const group = path.basename(program, "_client.py");
  const requirements = new RegExp(`^${group} = (\\[.*\\])$`, "m").exec(text)?.[1];
  if (!requirements) throw new Error(`${manifest} has no group ${group}.`);
  return (JSON.parse(requirements) as string[]).map((requirement) => `${requirement}\n`).join("");
}

/** Returns the client's manifest with pinned versions replaced by the newest. An alias keeps its major version. */
export function newestManifest(client: Client): string {
  const { package: name, runtime } = client;
  const text = pinnedManifest(client);
  switch (runtime) {
    case "node":
      return text.replace(/": "\d[\w.-]*"/g, '": "latest"').replace(/(npm:[^"]+@\d+)\.[^"]*/g, "$1");
    case "python":
      return text.replace(/==.*/g, "");
    case "java":
      return text.replace(new RegExp(`(<artifactId>${name}</artifactId>\\s*<version>)[^<]*`), "$1RELEASE");
    case "go":
      // `go get` updates the manifest.
      return text;
  }
}
