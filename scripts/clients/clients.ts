import { readFileSync } from "node:fs";
import path from "node:path";

export type Runtime = "node" | "python" | "java";

/** A published client, and a program that uses it as its documentation shows. */
export type Client = {
  name: string;
  runtime: Runtime;
  program: string;
  /** Pins the client to an exact version. */
  manifest: string;
  /** Its name in the manifest. */
  package: string;
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
  // One environment each, since their dependencies conflict.
  manifest: `python/${program}_client.txt`,
  package: packageName,
});

export const clients: readonly Client[] = [
  node("openai-node", "openai", "openai"),
  node("langchain-js", "langchain", "@langchain/openai"),
  node("ai-sdk", "ai-sdk", "ai"),
  node("openai-agents-js", "openai-agents", "@openai/agents"),
  node("mastra", "mastra", "@mastra/core"),
  python("openai-python", "openai", "openai"),
  python("langchain-python", "langchain", "langchain-openai"),
  python("pydantic-ai", "pydantic_ai", "pydantic-ai-slim"),
  python("crewai", "crewai", "crewai"),
  python("llamaindex", "llamaindex", "llama-index-llms-openai"),
  python("openai-agents-python", "openai_agents", "openai-agents"),
  python("instructor", "instructor", "instructor"),
  {
    name: "openai-java",
    runtime: "java",
    program: "java/OpenAIJava.java",
    manifest: "java/pom.xml",
    package: "openai-java",
  },
];

export const sourceDir = import.meta.dirname;

export const readManifest = ({ manifest }: Client): string => readFileSync(path.join(sourceDir, manifest), "utf8");

/** @throws Error where the manifest does not pin the client to an exact version */
export function versionOf(client: Client): string {
  const { package: name } = client;
  const pin = {
    node: `"${name}": "(\\d[\\w.-]*)"`,
    python: `^${name}(?:\\[\\w+\\])?==(\\d[\\w.]*)$`,
    java: `<artifactId>${name}</artifactId>\\s*<version>(\\d[\\w.-]*)</version>`,
  }[client.runtime];
  const version = new RegExp(pin, "m").exec(readManifest(client))?.[1];
  if (!version) throw new Error(`${client.manifest} does not pin ${client.package} to an exact version.`);
  return version;
}
