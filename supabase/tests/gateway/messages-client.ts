/** A request to the Messages API, in Anthropic's format. */
export type MessageParams = {
  model: string;
  max_tokens: number;
  messages: { role: "user" | "assistant"; content: string | object[] }[];
  system?: object[] | string;
  tools?: object[];
  thinking?: object;
  metadata?: object;
};

type Block = {
  type: string;
  id?: string;
  text?: string;
  name?: string;
  input?: unknown;
  thinking?: string;
  signature?: string;
};

/** The members of a message that tests read. */
export type Message = {
  content: Block[];
  stop_reason: string | null;
  usage: {
    input_tokens: number;
    output_tokens: number;
    cache_read_input_tokens?: number;
    server_tool_use?: { web_search_requests: number } | null;
  };
  platform?: { billed_credits: number; usage: object; run_id: string };
};

type Delta = { text?: string; partial_json?: string; thinking?: string; signature?: string };
type StreamEvent = {
  type: string;
  index?: number;
  message?: Message;
  content_block?: Block;
  delta?: Delta & Partial<Message>;
  usage?: Partial<Message["usage"]>;
  platform?: Message["platform"];
};

type CallOptions = { headers?: Record<string, string>; signal?: AbortSignal };

/** An error of the Messages API: the status, unless it is an event of a stream, and the body. */
export class MessagesError extends Error {
  override name = "MessagesError";
  readonly status: number | undefined;
  readonly error: { type: string; error: { type: string; code?: string; param?: string }; request_id?: string };
  readonly requestId: string | null;

  constructor(error: MessagesError["error"], response?: Response) {
    super(JSON.stringify(error));
    this.status = response?.status;
    this.error = error;
    this.requestId = response?.headers.get("request-id") ?? null;
  }

  get type(): string {
    return this.error.error.type;
  }
}

export type MessagesClient = ReturnType<typeof createMessagesClient>;

/** Creates a client of the Messages API that sends what Anthropic's SDKs send: the key and the version as headers. */
export function createMessagesClient({
  baseUrl,
  key,
  fetch = globalThis.fetch,
}: {
  baseUrl: string;
  key: string;
  fetch?: typeof globalThis.fetch;
}) {
  async function call(path: string, { headers, signal, body }: CallOptions & { body?: object } = {}) {
    const response = await fetch(`${baseUrl}/v1${path}`, {
      method: body ? "POST" : "GET",
      headers: { "x-api-key": key, "anthropic-version": "2023-06-01", "content-type": "application/json", ...headers },
      ...(body && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    if (!response.ok) throw new MessagesError((await response.json()) as MessagesError["error"], response);
    return response;
  }

  async function* stream(params: MessageParams, options?: CallOptions): AsyncGenerator<StreamEvent> {
    const { body } = await call("/messages", { ...options, body: { ...params, stream: true } });
    let text = "";
    for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += piece;
      const events = text.split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1];
        if (data === undefined) continue;
        const parsed = JSON.parse(data);
        if (parsed.type === "error") throw new MessagesError(parsed);
        yield parsed;
      }
    }
  }

  return {
    stream,
    create: async (params: MessageParams, options?: CallOptions): Promise<Message> =>
      (await (await call("/messages", { ...options, body: params })).json()) as Message,
    /** Streams a message and returns it whole. */
    async streamWhole(params: MessageParams, options?: CallOptions): Promise<Message> {
      const events: StreamEvent[] = [];
      for await (const event of stream(params, options)) events.push(event);
      return assemble(events);
    },
    countTokens: async (params: Omit<MessageParams, "max_tokens">, options?: CallOptions) =>
      (await (await call("/messages/count_tokens", { ...options, body: params })).json()) as { input_tokens: number },
    get: async (path: string, options?: CallOptions): Promise<unknown> => (await call(path, options)).json(),
  };
}

/** Assembles a message from its events, as Anthropic's SDKs do. */
function assemble(events: readonly StreamEvent[]): Message {
  let message: Message | undefined;
  const inputs = new Map<Block, string>();
  for (const { type, index = 0, message: begun, content_block: block, delta, usage, platform } of events) {
    if (type === "ping") continue;
    if (type === "message_start") message = begun && structuredClone(begun);
    if (!message) throw new Error(`${type} before message_start`);
    if (type === "content_block_start" && block) message.content[index] = structuredClone(block);
    const open = message.content[index];
    if (type === "content_block_delta" && open && delta) {
      for (const part of ["text", "thinking", "signature"] as const)
        if (delta[part] !== undefined) open[part] = `${open[part] ?? ""}${delta[part]}`;
      if (delta.partial_json !== undefined) inputs.set(open, `${inputs.get(open) ?? ""}${delta.partial_json}`);
    }
    if (type === "message_delta") {
      Object.assign(message, delta);
      Object.assign(message.usage, usage);
    }
    if (platform) message.platform = platform;
  }
  for (const [block, input] of inputs) block.input = JSON.parse(input || "{}");
  if (!message) throw new Error("The stream had no events.");
  return message;
}
