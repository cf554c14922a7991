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
  /** The file that pins the client to an exact version. */
  manifest: string;
  /** The file with the hash of each package that is installed with the client. Maven has no such file. */
  lock?: string;
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
  lock: "js/package-lock.json",
  package: packageName,
});
const python = (name: string, program: string, packageName: string): Client => ({
  name,
  runtime: "python",
  program: `python/${program}_client.py`,
  // Each client has its own environment, since the clients' dependencies conflict.
  manifest: `python/${program}_client.in`,
  lock: `python/${program}_client.txt`,
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
    lock: "go/go.sum",
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
export function versionOf({ package: name, runtime, manifest }: Client): string {
  const pin = {
    node: `"${name}": "(?:npm:[^"]+@)?(\\d[\\w.-]*)"`,
    python: `^${name}(?:\\[\\w+\\])?==(\\d[\\w.]*)$`,
    java: `<artifactId>${name}</artifactId>\\s*<version>(\\d[\\w.-]*)</version>`,
    go: `${name} v(\\d[\\w.-]*)`,
  }[runtime];
  const version = new RegExp(pin, "m").exec(readSource(manifest))?.[1];
  if (!version) throw new Error(`${manifest} does not pin ${name} to an exact version.`);
  return version;
}

/** Returns the client's manifest with pinned versions replaced by the newest. An alias keeps its major version. */
export function newestManifest({ package: name, runtime, manifest }: Client): string {
  const text = readSource(manifest);
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
