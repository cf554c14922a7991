import type { z } from "zod";
import { type ChatRequest, chatSchema, outputLimits, unsupportedFields } from "./chat-schema.ts";
import type { RunRoute } from "./database.ts";
import { GatewayError } from "./errors.ts";

/** What a chat asks for, and what it may cost at most. */
export type Chat = {
  request: ChatRequest;
  outputLimit: number;
  choices: number;
  images: number;
  audio: boolean;
  /** Bytes of the body that count as text: all but the images'. */
  inputBytes: number;
};

/**
 * Checks a parsed body against the allow-list.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, with the field
 */
export function readChat(value: unknown, bodyBytes: number): Chat {
  const parsed = chatSchema.safeParse(value);
  if (!parsed.success) throw refuse(parsed.error);
  const request = parsed.data;
  if (request.max_tokens != null && request.max_completion_tokens != null) {
    throw new GatewayError("invalid_request", {
      param: "max_tokens",
      message: "max_tokens and max_completion_tokens mean the same: send one.",
    });
  }
  let images = 0;
  let imageBytes = 0;
  let audio = false;
  for (const { content } of request.messages) {
    if (!Array.isArray(content)) continue;
    for (const part of content) {
      if (part.type === "image_url") {
        images += 1;
        if (part.image_url.url.startsWith("data:")) imageBytes += part.image_url.url.length;
      } else if (part.type === "input_audio") audio = true;
    }
  }
  return {
    request,
    outputLimit: request.max_completion_tokens ?? request.max_tokens ?? outputLimits.default,
    choices: request.n ?? 1,
    images,
    audio,
    inputBytes: bodyBytes - imageBytes,
  };
}

/** The body for a provider: the client's fields, with the limits that the reservation counts on. */
export function providerBody(chat: Chat, route: RunRoute, workspaceId: string): string {
  const { stream, stream_options, prompt_cache_key, ...fields } = chat.request;
  return JSON.stringify({
    ...fields,
    model: route.model,
    ...(chat.request.max_tokens == null ? { max_completion_tokens: chat.outputLimit } : {}),
    // One tenant's cache is no other's.
    ...(prompt_cache_key === undefined ? {} : { prompt_cache_key: `${workspaceId}:${prompt_cache_key}` }),
    ...(stream ? { stream: true, stream_options: { ...stream_options, include_usage: true } } : {}),
  });
}

type Issue = z.core.$ZodIssue;

function refuse(error: z.ZodError): GatewayError {
  const issue = error.issues.map(deepest).at(0);
  const path = issue?.path.map(String) ?? [];
  const unknown = issue?.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const param = [...path, ...(unknown === undefined ? [] : [unknown])].join(".").slice(0, 256) || undefined;
  const field = path[0] ?? unknown ?? "";
  // A kind of tool or part that is not listed, or a server tool's name in a tool's place.
  const unlistedKind = path.at(-1) === "type" || (field === "tools" && path.length === 2);
  if (unsupportedFields.has(field) || unlistedKind) {
    return new GatewayError("unsupported_parameter", { param, message: `${param} is not supported here.` });
  }
  const message = unknown === undefined ? issue?.message : `Unknown field: ${unknown.slice(0, 128)}`;
  return new GatewayError("invalid_request", { param, message });
}

/** Of a union's alternatives, the issue of the one that came furthest: what the client most likely meant. */
function deepest(issue: Issue): Issue {
  if (issue.code !== "invalid_union") return issue;
  const inner = issue.errors
    .flatMap((issues) => issues.slice(0, 1))
    .map((each) => deepest({ ...each, path: [...issue.path, ...each.path] }));
  return inner.reduce((best, each) => (each.path.length > best.path.length ? each : best), issue as Issue);
}
