/** A provider's endpoint. The legacy adapter `generate` uses `chat`. */
export type Endpoint = "chat" | "responses" | "messages" | "count_tokens" | "embeddings" | "speech";

/**
 * The header that carries a key. `Authorization` carries the key as a bearer token, and the other headers carry only
 * the key.
 */
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

/**
 * How an answer may end that some providers don't bill: with a refusal or an error before any output, or with neither
 * output nor a reason.
 */
export type UnbilledEnding = "refusal" | "error" | "nothing";

/** How to call a family of providers, and what they accept. */
export type ProviderKind = {
  name: KindName;
  /** The provider's public base URL. Absent if the operator must set one. */
  baseUrl?: string;
  /** False for self-hosted servers, which may work without a key. */
  keyRequired: boolean;
  endpoints: Endpoints;
  /** Headers sent with every request, unless the request already has a header of the same name. */
  headers?: Readonly<Record<string, string>>;
  /** How to list the models. The doctor uses this to check the provider. */
  models: ModelLists;
  /** The API's usual base path, used to complete a host that the operator sets. */
  basePath?: "/v1" | "/openai/v1";
  /**
   * The endpoints to use if the operator sets an API version, which is sent as `api-version`. Absent if versions are
   * not supported.
   */
  versionedEndpoints?: Endpoints;
  /** The provider's name for the output limit of a chat. */
  outputLimit: "max_tokens" | "max_completion_tokens";
  /** The supported members of `stream_options`. If there are none, `stream_options` is not sent. */
  streamOptions: readonly ("include_usage" | "include_obfuscation")[];
  /** Whether the role `developer` is sent as `system`, because the provider doesn't know it. */
  developerIsSystem?: true;
  /**
   * Hints to leave out of a chat because the provider refuses them. A hint doesn't affect the answer. Requests to
   * `responsesEndpoint` keep their hints.
   */
  leftOut: readonly Hint[];
  /**
   * Members outside the endpoint's schema that pass unchanged, because the provider accepts them without an additional
   * charge.
   */
  passes?: readonly string[];
  /** The endings of answers that the provider's documentation says are free, although the answers state tokens. */
  unbilled?: readonly UnbilledEnding[];
  /** Fields of a chat request that the provider names differently. */
  renamed?: Readonly<Record<string, string>>;
  /** The `service_tier` to send if the client names none, so that the account's default can't change the price. */
  defaultServiceTier?: "default";
  /**
   * The members of an assistant message that are sent back to the provider. If absent, the message is sent unchanged.
   */
  turn?: AssistantTurn;
};

/** How a kind lists its models. */
export type ModelLists = {
  /**
   * Paths of the model lists below the base URL, requested with the chat key. A provider without model lists is checked
   * with a minimal call.
   */
  paths: readonly string[];
  /** Whether some servers of this kind don't list their models. A minimal call checks such a server instead. */
  optional?: true;
  /** Whether the model lists can be read without a key. If so, `keyPath` is a free request that checks the key. */
  public?: true;
  keyPath?: string;
  /** Whether the list is a bare array instead of an object. */
  array?: true;
  /** The `owned_by` values in this kind's model lists. They distinguish this kind from other kinds. */
  owners?: readonly string[];
  /** Whether the provider may also serve models that are not in its list. */
  incomplete?: true;
  /** Normalizes a model's name, so that configured names can be compared with names in the provider's list. */
  spell?: (model: string) => string;
};

/** The {@link Hint} fields whose value the client chooses. The other hints can have only their default value. */
export const clientHints = ["metadata", "prompt_cache_key", "safety_identifier", "user"] as const;
/** Fields of an OpenAI chat request that don't change the answer. */
export type Hint = (typeof clientHints)[number] | "modalities" | "service_tier" | "store";

export type AssistantTurn = {
  /** Supported members of the message, in addition to `role`, `content` and `tool_calls`. */
  message: readonly string[];
  /** Supported members of a tool call, in addition to `id`, `type` and `function`. */
  toolCall: readonly string[];
  /** Supported types of content parts, in addition to `text` and `refusal`. */
  parts?: readonly string[];
  /**
   * A member that a message with tool calls must have. If the message lacks the member, the gateway sends an empty
   * string.
   */
  required?: string;
  /** The number of letters and digits that a tool call's id must have. Absent if the provider accepts any id. */
  idLength?: number;
};

const bearer = { keyHeader: "authorization" } as const;
/** OpenAI's own paths, below a base URL that ends in the API's version. */
export const chatEndpoint: EndpointAddress = { path: "/chat/completions", ...bearer };
export const responsesEndpoint: EndpointAddress = { path: "/responses", ...bearer };
export const embeddingsEndpoint: EndpointAddress = { path: "/embeddings", ...bearer };
/** OpenAI's list: `{ object: "list", data: [{ id, owned_by }] }` (https://platform.openai.com/docs/api-reference/models/list). */
export const modelList = { paths: ["/models"] } as const;
