/** A provider's endpoint. A legacy `generate` call uses chat. */
export type Endpoint = "chat" | "responses" | "messages" | "count_tokens" | "embeddings" | "speech";

/** The header that carries a key: `Authorization` as a bearer token, the other headers as the bare key. */
export type KeyHeader = "authorization" | "api-key" | "x-api-key" | "x-goog-api-key";

/** The address of an endpoint below the base URL. `{model}` is replaced with the provider's model or deployment. */
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

/** How to call a family of providers, and what they accept. The kind's name decides how usage is read. */
export type ProviderKind = {
  name: KindName;
  /** The provider's public address. Absent if the operator sets it. */
  baseUrl?: string;
  /** Self-hosted servers may work without a key. */
  keyRequired: boolean;
  endpoints: Endpoints;
  /** Headers sent with every request, unless it has its own header of the same name. */
  headers?: Readonly<Record<string, string>>;
  /** Where the doctor reads the list of models. */
  models: ModelLists;
  /** The API's usual base path on a host that the operator sets. */
  basePath?: "/v1" | "/openai/v1";
  /**
   * The endpoints to use if the operator sets an API version, which is sent as `api-version`. Absent if there are none.
   */
  versionedEndpoints?: Endpoints;
  /** The name of a chat's output limit. */
  outputLimit: "max_tokens" | "max_completion_tokens";
  /** What `stream_options` of a streamed chat may contain; if empty, it is not sent. */
  streamOptions: readonly ("include_usage" | "include_obfuscation")[];
  /** The provider doesn't know the role `developer`; it is sent as `system`. */
  developerIsSystem?: true;
  /**
   * Members of a chat (not a response) that are left out if they don't affect the answer, because the provider refuses
   * them.
   */
  leftOut: readonly Hint[];
  /**
   * Members outside the endpoint's schema that pass unchanged: the provider accepts them, and they cost nothing extra.
   */
  passes?: readonly string[];
  /** Members of a chat that have another name at the provider. */
  renamed?: Readonly<Record<string, string>>;
  /** Sent as `service_tier` if the client names none, so that the account's default can't change the price. */
  defaultServiceTier?: "default";
  /** What an assistant message carries back to the provider. Absent: all its members, unchanged. */
  turn?: AssistantTurn;
};

/** How a kind lists its models. */
export type ModelLists = {
  /**
   * Paths below the base URL, requested with the chat key. If empty, the kind has no list, and a minimal call is made
   * instead.
   */
  paths: readonly string[];
  /** Whether some of the kind's servers have no list. If the list is missing, a minimal call is made instead. */
  optional?: true;
  /** The lists need no key. `keyPath` is a free request that needs one. */
  public?: true;
  keyPath?: string;
  /** The list is a bare array, not wrapped in an object. */
  array?: true;
  /** Values of `owned_by` that distinguish its models from those of other kinds. */
  owners?: readonly string[];
  /** The provider may serve models that it does not list. */
  incomplete?: true;
  /** Normalizes the spelling of a model's name. */
  spell?: (model: string) => string;
};

/** Hints that carry information; the other hints can only state the default. */
export const tellingHints = ["metadata", "prompt_cache_key", "safety_identifier", "user"] as const;
/** OpenAI's chat members that do not change the answer. */
export type Hint = (typeof tellingHints)[number] | "modalities" | "service_tier" | "store";

export type AssistantTurn = {
  /** Members of the message in addition to `role`, `content` and `tool_calls`. */
  message: readonly string[];
  /** Members of a tool call in addition to `id`, `type` and `function`. */
  toolCall: readonly string[];
  /** Types of content parts in addition to `text` and `refusal`. */
  parts?: readonly string[];
  /** A member that a message with tool calls must have, empty if the model wrote none. */
  required?: string;
  /** Number of letters and digits in a tool call's id. Absent if ids of other providers are accepted, too. */
  idLength?: number;
};

const bearer = { keyHeader: "authorization" } as const;
/** OpenAI's own paths, below a base URL that ends in the API's version. */
export const chat: EndpointAddress = { path: "/chat/completions", ...bearer };
export const responses: EndpointAddress = { path: "/responses", ...bearer };
export const embeddings: EndpointAddress = { path: "/embeddings", ...bearer };
/** OpenAI's list: `{ object: "list", data: [{ id, owned_by }] }` (https://platform.openai.com/docs/api-reference/models/list). */
export const modelList = { paths: ["/models"] } as const;
