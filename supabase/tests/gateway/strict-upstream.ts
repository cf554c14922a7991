import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Members = Record<string, unknown>;
type Message = Members & { role: string; tool_calls?: Members[] };
type ChatBody = Members & { messages: Message[]; stream?: boolean };

/** The properties of an upstream that refuses everything not listed here. */
export type StrictUpstream = {
  /** The path and query of the upstream's chat endpoint. */
  path: string;
  /** The header that carries the key, with its full value. If it is undefined, requests with any key are refused. */
  key?: [name: string, value: string];
  /** Top-level members of a chat request in addition to `model`, `messages`, `tools`, `tool_choice` and `stream`. */
  members: readonly string[];
  limit: "max_tokens" | "max_completion_tokens";
  /** Members of an assistant's message in addition to `role`, `content` and `tool_calls`. */
  turnMembers: readonly string[];
  /** Members that the model adds to an assistant message with tool calls. Later requests must send them back. */
  turn?: Members;
  /** Members that the model adds to each tool call. Later requests must send them back. */
  toolCall?: Members;
  /** The usage that the upstream reports for 20 input and 3 output tokens. If absent, the upstream reports no usage. */
  usage?: Members;
  /** Where streams report the usage: in a chunk of its own, if requested, or in the last chunk that has choices. */
  usageIn?: "own chunk" | "last chunk";
  /** The text that the upstream answers with, regardless of the request's token limit. */
  text: string;
};

const call = { id: "call00001", type: "function", function: { name: "calculator", arguments: '{"expression":"6*7"}' } };

/**
 * Starts an upstream on loopback. It answers with a tool call if the request offers tools and ends with a user message.
 * Otherwise, it answers with `upstream.text`.
 */
export async function openStrictUpstream(upstream: StrictUpstream): Promise<{
  origin: string;
  /** Every accepted request body. */
  taken: ChatBody[];
  /** The reason for each refused request. */
  refused: string[];
  close: () => void;
}> {
  const taken: ChatBody[] = [];
  const refused: string[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    const [status, why] = refusal(upstream, request, text);
    if (why) {
      refused.push(why);
      response
        .writeHead(status, { "content-type": "application/json" })
        .end(JSON.stringify({ error: { message: why } }));
      return;
    }
    const body: ChatBody = JSON.parse(text);
    taken.push(body);
    const message =
      body.tools && body.messages.at(-1)?.role === "user" ? callingMessage(upstream) : sayingMessage(upstream);
    if (body.stream) answerStream(response, { upstream, body, message });
    else answerWhole(response, { upstream, message });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, taken, refused, close };
}

function callingMessage({ turn, toolCall }: StrictUpstream): Message {
  return { role: "assistant", content: null, ...turn, tool_calls: [{ ...call, ...toolCall }] };
}

function sayingMessage({ text }: StrictUpstream): Message {
  return { role: "assistant", content: text };
}

/** @returns the status, and the reason if the request is refused */
function refusal(upstream: StrictUpstream, { method, url, headers }: IncomingMessage, text: string): [number, string?] {
  if (method !== "POST" || url !== upstream.path) return [404, `no ${method} ${url}`];
  const keys = ["authorization", "api-key", "x-goog-api-key"].filter((name) => headers[name] !== undefined);
  const [name, value] = upstream.key ?? [];
  if (keys.join() !== (name ?? "") || (name !== undefined && headers[name] !== value)) return [401, `key in ${keys}`];
  const body: ChatBody = JSON.parse(text);
  const known = ["model", "messages", "tools", "tool_choice", "stream", upstream.limit, ...upstream.members];
  const unknown = Object.keys(body).filter((member) => !known.includes(member));
  if (unknown.length > 0) return [422, `unknown members ${unknown}`];
  if (typeof body[upstream.limit] !== "number") return [422, `no ${upstream.limit}`];
  for (const message of body.messages) {
    const why = message.role === "assistant" ? turnRefusal(upstream, message) : undefined;
    if (why) return [400, why];
  }
  return [200];
}

function turnRefusal({ turnMembers, turn = {}, toolCall = {} }: StrictUpstream, message: Message): string | undefined {
  const known = ["role", "content", "tool_calls", ...turnMembers];
  const unknown = Object.keys(message).filter((member) => !known.includes(member));
  if (unknown.length > 0) return `unknown members ${unknown} of a message`;
  for (const each of message.tool_calls ?? []) {
    const strange = Object.keys(each).filter((member) => !(member in { ...call, ...toolCall }));
    if (strange.length > 0) return `unknown members ${strange} of a tool call`;
    const lacking = Object.entries(toolCall).filter(
      ([name, value]) => JSON.stringify(each[name]) !== JSON.stringify(value),
    );
    if (lacking.length > 0) return `a tool call without its ${lacking.map(([name]) => name)}`;
  }
  const lacking = Object.keys(turn).filter((name) => message.tool_calls && message[name] === undefined);
  return lacking.length > 0 ? `a tool turn without its ${lacking}` : undefined;
}

const head = { id: "chatcmpl-1", created: 1, model: "upstream" };

function answerWhole(
  response: ServerResponse,
  { upstream, message }: { upstream: StrictUpstream; message: Message },
): void {
  const finish_reason = message.tool_calls ? "tool_calls" : "stop";
  const choices = [{ index: 0, message, finish_reason }];
  const body = { ...head, object: "chat.completion", choices, ...(upstream.usage ? { usage: upstream.usage } : {}) };
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function answerStream(
  response: ServerResponse,
  { upstream, body, message }: { upstream: StrictUpstream; body: ChatBody; message: Message },
): void {
  const { usage, usageIn } = upstream;
  const event = (data: object) => `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...data })}\n\n`;
  const delta = message.tool_calls
    ? { ...message, tool_calls: message.tool_calls.map((each, index) => ({ index, ...each })) }
    : message;
  const asked = (body.stream_options as { include_usage?: boolean } | undefined)?.include_usage === true;
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(event({ choices: [{ index: 0, delta, finish_reason: null }] }));
  const last = { index: 0, delta: {}, finish_reason: message.tool_calls ? "tool_calls" : "stop" };
  response.write(event({ choices: [last], ...(usage && usageIn === "last chunk" ? { usage } : {}) }));
  if (usage && usageIn === "own chunk" && asked) response.write(event({ choices: [], usage }));
  response.end("data: [DONE]\n\n");
}
