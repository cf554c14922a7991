/** What a provider is asked for. A legacy `generate` call is a chat. */
export type Endpoint = "chat" | "responses" | "messages" | "count_tokens" | "embeddings" | "speech";

/** The header that carries a key: `Authorization` as a bearer token, the others bare. */
export type KeyHeader = "authorization" | "api-key" | "x-api-key" | "x-goog-api-key";

/** Where an endpoint is below the base URL. `{model}` stands for the provider's model or deployment. */
export type EndpointAddress = { path: string; keyHeader: KeyHeader };
export type Endpoints = Partial<Record<Endpoint, EndpointAddress>>;

export type KindName =
  | "openai"
  | "azure"
  | "anthropic"
  | "gemini"
  | "mistral"
  | "deepseek"
  | "groq"
  | "xai"
  | "moonshot"
  | "openrouter"
  | "together"
  | "perplexity"
  | "bedrock"
  | "vllm"
  | "llama-cpp"
  | "ollama"
  | "openai-compatible";

/** How a family of providers is called, and what it accepts. Usage is read by the kind's name. */
export type ProviderKind = {
  name: KindName;
  /** Where the provider is for everybody. Absent: the operator names the address. */
  baseUrl?: string;
  /** Servers of one's own may work without a key. */
  keyRequired: boolean;
  endpoints: Endpoints;
  /** Sent with every request that has no header of this name. */
  headers?: Readonly<Record<string, string>>;
  /** Where the doctor reads which models there are. */
  models: ModelLists;
  /** Where the API usually begins on a host that the operator names. */
  basePath?: "/v1" | "/openai/v1";
  /** The endpoints where the operator names an API version, which is sent as `api-version`. Absent: there is none. */
  versionedEndpoints?: Endpoints;
  /** What a chat calls its output limit. */
  outputLimit: "max_tokens" | "max_completion_tokens";
  /** What `stream_options` of a streamed chat may hold; where that is nothing, it is not sent. */
  streamOptions: readonly ("include_usage" | "include_obfuscation")[];
  /** It does not know the role `developer`, which it is sent as `system`. */
  developerIsSystem?: true;
  /** Members of a chat, not of a response, that are left out where they change nothing about the answer, because the provider refuses them. */
  leftOut: readonly Hint[];
  /** Members beyond those of the endpoint that pass as they came: the provider takes them, and they cost nothing more. */
  passes?: readonly string[];
  /** Members of a chat that the provider knows by another name. */
  renamed?: Readonly<Record<string, string>>;
  /** Sent as `service_tier` when the client names none, so that the account's own default cannot change the price. */
  defaultServiceTier?: "default";
  /** What an assistant's message carries back to the provider. Absent: all its members, as they came. */
  turn?: AssistantTurn;
};

/** How a kind lists its models. */
export type ModelLists = {
  /** Paths below the base URL, asked with the key of a chat. Empty: the kind has no list, and a minimal call is made instead. */
  paths: readonly string[];
  /** Some of its servers have no list. A minimal call is made where it is missing. */
  optional?: true;
  /** The lists need no key. `keyPath` is a free request that does. */
  public?: true;
  keyPath?: string;
  /** A list is an array, without an object around it. */
  array?: true;
  /** What `owned_by` of its models says, which tells it from other kinds. */
  owners?: readonly string[];
  /** It may serve models that it does not list. */
  incomplete?: true;
  /** The name that two spellings of a model's name share. */
  spell?: (model: string) => string;
};

/** Hints that say something: the others can only state the default. */
export const tellingHints = ["metadata", "prompt_cache_key", "safety_identifier", "user"] as const;
/** OpenAI's members of a chat that do not change the answer. */
export type Hint = (typeof tellingHints)[number] | "modalities" | "service_tier" | "store";

export type AssistantTurn = {
  /** Members of the message in addition to `role`, `content` and `tool_calls`. */
  message: readonly string[];
  /** Members of a tool call in addition to `id`, `type` and `function`. */
  toolCall: readonly string[];
  /** Types of parts in its content in addition to `text` and `refusal`. */
  parts?: readonly string[];
  /** A member that a message with tool calls must have, empty if the model wrote none. */
  required?: string;
  /** How many letters and digits a tool call's id has. Absent: ids of other providers are taken too. */
  idLength?: number;
};

const bearer = { keyHeader: "authorization" } as const;
/** OpenAI's own paths, below a base URL that ends in the API's version. */
export const chat: EndpointAddress = { path: "/chat/completions", ...bearer };
export const responses: EndpointAddress = { path: "/responses", ...bearer };
export const embeddings: EndpointAddress = { path: "/embeddings", ...bearer };
/** OpenAI's list: `{ object: "list", data: [{ id, owned_by }] }` (https://platform.openai.com/docs/api-reference/models/list). */
export const modelList = { paths: ["/models"] } as const;
