import { curl } from "../playground/request-code.ts";

const messages = [{ role: "user", content: "Hello" }];
/** The gateway's paths, each with the smallest body that it accepts, without the model. */
const endpoints = {
  chat: { path: "/chat/completions", body: { messages }, kind: "chat" },
  responses: { path: "/responses", body: { input: "Hello" }, kind: "chat" },
  messages: { path: "/messages", body: { max_tokens: 256, messages }, kind: "chat" },
  count_tokens: { path: "/messages/count_tokens", body: { messages }, kind: "chat" },
  embeddings: { path: "/embeddings", body: { input: ["Hello"] }, kind: "embeddings" },
  speech: { path: "/audio/speech", body: { input: "Hello", voice: "alloy" }, kind: "speech" },
} as const;

/** A call to repeat: its endpoint or feature, and the request's body if it was captured and opened. */
export interface RepeatableCall {
  model: string;
  modelKind?: "chat" | "embedding" | "speech" | null;
  streamed: boolean;
  /** The run's feature. It names the endpoint unless the client sent its own. */
  feature: string | null;
  endpoint?: string;
  body?: Readonly<Record<string, unknown>> | null;
}

/** Returns a curl command that repeats a call with its captured body, or has its shape with the smallest body. */
export function repeatAsCurl(call: RepeatableCall, gatewayUrl: string): string {
  const { path, body } = endpoints[endpointOf(call)];
  const stream = call.streamed ? { stream: true } : {};
  return curl(`${gatewayUrl}${path}`, call.body ?? { model: call.model, ...body, ...stream }, [
    ...(call.streamed ? ["-N"] : []),
    ...(path === endpoints.speech.path ? ["--output", "speech.wav"] : []),
  ]);
}

/** Returns the playground's query for a call. */
export function playgroundSearch(call: RepeatableCall): string {
  return `?${new URLSearchParams({ kind: endpoints[endpointOf(call)].kind, model: call.model })}`;
}

function endpointOf({ modelKind, feature, endpoint, body }: RepeatableCall): keyof typeof endpoints {
  const names = Object.keys(endpoints) as (keyof typeof endpoints)[];
  const named = names.find((name) => name === feature || endpoint?.replace(/^\/v1/, "") === endpoints[name].path);
  if (named) return named;
  if (modelKind === "speech") return "speech";
  if (modelKind === "embedding") return "embeddings";
  return body && "input" in body && !("messages" in body) ? "responses" : "chat";
}

/** A captured conversation, as fields of the playground's form. */
export interface PlaygroundDraft {
  system: string;
  /** The messages before the last one, as JSON. */
  conversation: string;
  prompt: string;
}

/** Returns a captured chat for the playground, or null if it has anything but text. */
export function draftOf(call: RepeatableCall): PlaygroundDraft | null {
  const { body } = call;
  if (!body || endpoints[endpointOf(call)].kind !== "chat") return null;
  const { messages: sent, input, system, instructions } = body;
  const list = Array.isArray(sent) ? sent : [{ role: "user", content: input }];
  const texts = list.map((message: { role?: unknown; content?: unknown }) => ({
    role: message?.role,
    content: message?.content,
  }));
  const isText = ({ role, content }: (typeof texts)[number]) =>
    typeof content === "string" && ["system", "developer", "user", "assistant"].includes(String(role));
  const last = texts.at(-1);
  if (!texts.every(isText) || last?.role !== "user") return null;
  const isSystem = ({ role }: (typeof texts)[number]) => role === "system" || role === "developer";
  const systemTexts = [system, instructions, ...texts.filter(isSystem).map(({ content }) => content)];
  const earlier = texts.slice(0, -1).filter((message) => !isSystem(message));
  return {
    system: systemTexts.filter((text) => typeof text === "string").join("\n\n"),
    conversation: JSON.stringify(earlier.map((message) => ({ message }))),
    prompt: String(last.content),
  };
}
