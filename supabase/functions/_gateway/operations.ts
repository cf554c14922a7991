import { z } from "zod";
import type { Operation } from "../_shared/operation.ts";
import { invoiceReceipt, providerCost, providerCostBatch, providerInvoice } from "../_shared/provider-records.ts";
import { utcWindow } from "../_shared/utc-time.ts";
import {
  anthropicModel,
  anthropicModelList,
  chatAnswer,
  credentialSchema,
  embeddingsAnswer,
  envelopeSchema,
  messagesAnswer,
  modelList,
  modelSchema,
  responsesAnswer,
  tokensAnswer,
  usageReport,
} from "./answer-schemas.ts";
import { chatSchema } from "./chat/schema.ts";
import { embeddingsSchema } from "./embeddings/surface.ts";
import { envelopeQuery } from "./envelopes/envelope-query.ts";
import { generatedAnswer, generateSchema } from "./generate/surface.ts";
import type { ErrorCode } from "./http/errors.ts";
import { costReceipt, costReceipts } from "./imports/serve-import.ts";
import { countTokensSchema, messagesSchema } from "./messages/schema.ts";
import {
  anthropicHeaders,
  appErrors,
  appHeaders,
  callErrors,
  callHeaders,
  envelopeHeaders,
  importErrors,
  messagesHeaders,
  platformHeaders,
  readHeaders,
} from "./operation-parts.ts";
import { responsesSchema } from "./responses/schema.ts";
import { speechSchema } from "./speech/request.ts";

const anyCredential = ["workspaceKey", "appToken", "userToken"] as const;
const appCredential = ["workspaceKey", "appToken"] as const;
const textOperation = { tag: "Text", method: "POST", credentials: anyCredential, headers: callHeaders } as const;
const eventStreamTypes = ["text/event-stream"] as const;
const importOperation = { tag: "Imports and usage", credentials: appCredential, headers: appHeaders } as const;

/** The operations of the AI gateway, by path below its base URL. */
export const gatewayOperations: readonly Operation<ErrorCode>[] = [
  {
    ...textOperation,
    id: "createChatCompletion",
    path: "/v1/chat/completions",
    summary: "Create a chat completion",
    description:
      "Compatible with OpenAI's chat completions. An optional field that is null counts as absent. Unknown top-level fields are forwarded if this kind of provider supports them; otherwise they are dropped and listed in platform.ignored. Unknown fields inside messages and tools are always forwarded. The response is the provider's, plus a platform object. With stream: true, the response is a stream of server-sent events, and the last event before [DONE] contains usage and platform. Server tools (calculator, current_time) run in a loop of at most max_steps model calls.",
    body: {
      schema: chatSchema,
      example: { model: "demo-chat", messages: [{ role: "user", content: "Say hello." }], max_completion_tokens: 64 },
    },
    answers: [
      {
        status: 200,
        description: "The completion.",
        schema: chatAnswer,
        contentTypes: eventStreamTypes,
        headers: envelopeHeaders,
      },
    ],
    problems: [...callErrors, "unsupported_schema"],
  },
  {
    ...textOperation,
    id: "createResponse",
    path: "/v1/responses",
    summary: "Create a response",
    description:
      "Compatible with OpenAI's responses, but stateless: nothing is stored, and responses state store: false. An optional field that is null counts as absent. Unknown top-level fields are forwarded if this kind of provider supports them; otherwise they are dropped and listed in platform.ignored. Unknown fields inside items and tools are always forwarded. With stream: true, the response is a stream of server-sent events, and the response.completed event contains platform.",
    body: { schema: responsesSchema, example: { model: "demo-chat", input: "Say hello.", max_output_tokens: 64 } },
    answers: [
      {
        status: 200,
        description: "The response.",
        schema: responsesAnswer,
        contentTypes: eventStreamTypes,
        headers: envelopeHeaders,
      },
    ],
    problems: [...callErrors, "unsupported_schema"],
  },
  {
    ...textOperation,
    id: "createMessage",
    path: "/v1/messages",
    headers: messagesHeaders,
    summary: "Create a message",
    description:
      "Compatible with Anthropic's messages. You can also send the credential as x-api-key. Except for model, the body is forwarded unchanged; unknown top-level fields are dropped and listed in platform.ignored. The response is the provider's, plus a platform object. With stream: true, the response is a stream of server-sent events, and the message_stop event contains platform.",
    body: {
      schema: messagesSchema,
      example: { model: "demo-messages", max_tokens: 64, messages: [{ role: "user", content: "Say hello." }] },
    },
    answers: [
      {
        status: 200,
        description: "The message.",
        schema: messagesAnswer,
        contentTypes: eventStreamTypes,
        headers: envelopeHeaders,
      },
    ],
    problems: [...callErrors],
  },
  {
    ...textOperation,
    id: "countMessageTokens",
    path: "/v1/messages/count_tokens",
    headers: messagesHeaders,
    summary: "Count the tokens of a message",
    description: "Free, and recorded as a run without usage. Rate limits and permissions apply.",
    body: {
      schema: countTokensSchema,
      example: { model: "demo-messages", messages: [{ role: "user", content: "Say hello." }] },
    },
    answers: [{ status: 200, description: "The number of input tokens.", schema: tokensAnswer }],
    problems: [...callErrors],
  },
  {
    ...textOperation,
    id: "createEmbeddings",
    path: "/v1/embeddings",
    summary: "Create embeddings",
    body: { schema: embeddingsSchema, example: { model: "demo-embedding", input: "Say hello." } },
    answers: [{ status: 200, description: "The embeddings.", schema: embeddingsAnswer, headers: envelopeHeaders }],
    problems: [...callErrors],
  },
  {
    ...textOperation,
    id: "generate",
    path: "/v1/generate",
    summary: "Generate text (legacy)",
    description: "For older clients. New clients should use chat completions.",
    body: { schema: generateSchema, example: { prompt: "Say hello.", model: "demo-chat" } },
    answers: [{ status: 200, description: "The text.", schema: generatedAnswer, headers: platformHeaders }],
    problems: [...callErrors],
  },
  {
    ...textOperation,
    id: "createSpeech",
    tag: "Speech",
    path: "/v1/audio/speech",
    summary: "Create speech",
    description: "An app token needs the tts:use scope. PCM is 24 kHz, mono, 16-bit little-endian.",
    body: { schema: speechSchema, example: { input: "Say hello.", response_format: "wav" } },
    answers: [
      {
        status: 200,
        description: "The audio.",
        contentTypes: ["audio/wav", "audio/pcm"],
        headers: platformHeaders,
      },
    ],
    problems: [...callErrors],
  },
  {
    id: "listModels",
    method: "GET",
    path: "/v1/models",
    tag: "Models and credentials",
    summary: "List the models that a credential can use",
    description:
      "Sorted by kind, with the default of each kind first, then by name. platform.endpoints lists the paths that serve a model; other paths return endpoint_not_served. With an anthropic-version or anthropic-beta header, the response and its errors have Anthropic's shape, the list contains only the models that the Messages API serves, and the credential may be sent as x-api-key.",
    credentials: anyCredential,
    headers: readHeaders.extend(anthropicHeaders),
    answers: [{ status: 200, description: "The models.", schema: z.union([modelList, anthropicModelList]) }],
    problems: [],
  },
  {
    id: "getModel",
    method: "GET",
    path: "/v1/models/{model}",
    tag: "Models and credentials",
    summary: "Get a model",
    credentials: anyCredential,
    pathExamples: { model: "demo-chat" },
    headers: readHeaders.extend(anthropicHeaders),
    answers: [{ status: 200, description: "The model.", schema: z.union([modelSchema, anthropicModel]) }],
    problems: ["model_not_found"],
  },
  {
    id: "getCredential",
    method: "GET",
    path: "/v1/key",
    tag: "Models and credentials",
    summary: "Get the limits and spending of the calling credential",
    credentials: anyCredential,
    headers: readHeaders,
    answers: [
      {
        status: 200,
        description: "The credential, its limits, its spending and what is left.",
        schema: credentialSchema,
      },
    ],
    problems: [],
  },
  {
    id: "getEnvelope",
    method: "GET",
    path: "/v1/envelopes/{id}",
    tag: "Models and credentials",
    summary: "Get an envelope that holds the caller's calls",
    description:
      "With wait, the response waits until the envelope's state, limits or room change, or until the time is up. Other callers' envelopes are not found.",
    credentials: anyCredential,
    headers: readHeaders,
    query: envelopeQuery,
    answers: [{ status: 200, description: "The envelope.", schema: envelopeSchema }],
    problems: ["envelope_not_found"],
  },
  {
    ...importOperation,
    id: "importProviderCost",
    method: "POST",
    path: "/v1/provider-costs",
    summary: "Report a provider's cost",
    description:
      "A newer observation corrects a record; an older one changes nothing. After a 503, retry with the same externalRunId.",
    body: {
      schema: providerCost,
      example: {
        provider: "openai",
        externalRunId: "run-2026-10-01-0001",
        amountUsd: 0.0042,
        occurredAt: "2026-10-01T12:00:00Z",
        observedAt: "2026-10-01T12:05:00Z",
      },
    },
    answers: [
      {
        status: 200,
        description: "Whether the record was stored or corrected, or why it was not.",
        schema: costReceipt,
      },
    ],
    problems: [...importErrors, "cost_conflict"],
  },
  {
    ...importOperation,
    id: "importProviderCosts",
    method: "POST",
    path: "/v1/provider-costs/batch",
    summary: "Report up to 100 provider costs",
    description: "Each record is imported separately: an invalid one does not affect the others.",
    body: {
      schema: providerCostBatch.extend({ records: z.array(providerCost).min(1).max(100) }),
      example: {
        records: [
          {
            provider: "openai",
            accountId: "org-1",
            externalRunId: "org-1:2026-10-01",
            granularity: "account_day",
            amountUsd: 12.5,
            occurredAt: "2026-10-01T00:00:00Z",
            observedAt: "2026-10-02T06:00:00Z",
          },
        ],
      },
    },
    answers: [
      { status: 200, description: "An outcome or an error for each record, in request order.", schema: costReceipts },
    ],
    problems: [...importErrors],
  },
  {
    ...importOperation,
    id: "importProviderInvoice",
    method: "POST",
    path: "/v1/provider-invoices",
    summary: "Import a reviewed provider invoice",
    description:
      "A recorded invoice never changes: sending it again returns the same receipt, and sending it with different values is refused.",
    body: {
      schema: providerInvoice,
      example: {
        provider: "openai",
        reference: "INV-2026-09",
        issuedOn: "2026-10-01",
        reviewedAt: "2026-10-02T09:30:00Z",
        amountUsd: 1234.56,
        periodStart: "2026-09-01",
        periodEnd: "2026-09-30",
      },
    },
    answers: [{ status: 200, description: "The invoice is recorded.", schema: invoiceReceipt }],
    problems: [...importErrors, "invoice_conflict"],
  },
  {
    ...importOperation,
    id: "getUsage",
    method: "GET",
    path: "/v1/usage",
    summary: "Get the usage report of the calling app",
    description:
      "The range is half-open, at most 365 days, and defaults to the 365 days up to now. previous is the range of the same length before it.",
    query: utcWindow,
    answers: [{ status: 200, description: "Sums by day, model, feature and execution mode.", schema: usageReport }],
    problems: [...appErrors],
  },
];
