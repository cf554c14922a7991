import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
import { storedFileAdvice } from "../requests/text-fields.ts";

/** The source of an image: data in the request, or a URL. */
const imageSource = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("base64"), media_type: z.string(), data: z.string() }),
  z.looseObject({ type: z.literal("url"), url: z.string().regex(/^https:\/\//, "must be an https URL") }),
  z.looseObject({ type: z.literal("file"), file_id: z.never({ error: storedFileAdvice }) }),
]);
const imageBlock = z.looseObject({ type: z.literal("image"), source: imageSource });

/** A document contained in the request. URLs are not accepted, because their documents could have any size. */
const documentSource = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("base64"), media_type: z.string(), data: z.string() }),
  z.looseObject({ type: z.literal("text"), media_type: z.string(), data: z.string() }),
  z.looseObject({
    type: z.literal("content"),
    content: z.union([
      z.string(),
      z.array(z.discriminatedUnion("type", [z.looseObject({ type: z.literal("text"), text: z.string() }), imageBlock])),
    ]),
  }),
  z.looseObject({ type: z.literal("url"), url: z.never({ error: "Send the document's content as base64." }) }),
  z.looseObject({ type: z.literal("file"), file_id: z.never({ error: storedFileAdvice }) }),
]);

const textBlock = z.looseObject({ type: z.literal("text"), text: z.string() });
const documentBlock = z.looseObject({ type: z.literal("document"), source: documentSource });

const searchResult = z.looseObject({ type: z.literal("search_result"), content: z.array(textBlock) });

/**
 * The result of a web fetch, which clients send back with the conversation. Images in its document are counted like
 * images in a document from the client.
 */
const fetchResult = z.looseObject({
  type: z.literal("web_fetch_tool_result"),
  content: z.discriminatedUnion("type", [
    z.looseObject({ type: z.literal("web_fetch_result"), content: documentBlock }),
    z.looseObject({ type: z.literal("web_fetch_tool_result_error") }),
  ]),
});

/** Block types that pass unchanged. They hold text or the result of a server tool. */
const passingTypes = [
  "thinking",
  "redacted_thinking",
  "tool_use",
  "server_tool_use",
  "web_search_tool_result",
  "code_execution_tool_result",
  "bash_code_execution_tool_result",
  "text_editor_code_execution_tool_result",
  "tool_search_tool_result",
  "tool_reference",
  "tool_addition",
  "tool_removal",
] as const;
const passingBlock = z.looseObject({ type: z.enum(passingTypes) });

const resultBlock = z.discriminatedUnion("type", [
  textBlock,
  imageBlock,
  documentBlock,
  searchResult,
  fetchResult,
  passingBlock,
]);
const toolResult = z.looseObject({
  type: z.literal("tool_result"),
  tool_use_id: z.string(),
  content: z.union([z.string(), z.array(resultBlock)]).nullish(),
});

/** A block of a message's content (the type `ContentBlockParam` of github.com/anthropics/anthropic-sdk-typescript). */
const block = z.discriminatedUnion("type", [
  textBlock,
  imageBlock,
  documentBlock,
  searchResult,
  fetchResult,
  toolResult,
  passingBlock,
]);

export const messageSchema = z.looseObject({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([z.string(), z.array(block)]),
});

export const systemSchema = z.union([z.string(), z.array(textBlock)]);

type ImageSource = z.infer<typeof imageBlock>["source"];

/** The media of a request: the sources of its images, and the base64 contents of its documents. */
export type Media = { images: ImageSource[]; documents: string[] };

/** Returns all media of a request, including those in tool results and documents. */
export function listMedia(messages: readonly z.infer<typeof messageSchema>[]): Media {
  const media: Media = { images: [], documents: [] };
  for (const { content } of messages) {
    if (typeof content !== "string") for (const each of content) collectMedia(each, media);
  }
  return media;
}

type Block = z.infer<typeof block> | z.infer<typeof resultBlock>;

function collectMedia(each: Block, media: Media): void {
  if (each.type === "image") media.images.push((each as z.infer<typeof imageBlock>).source);
  else if (each.type === "tool_result") {
    const { content } = each as z.infer<typeof toolResult>;
    if (Array.isArray(content)) for (const part of content) collectMedia(part, media);
  } else if (each.type === "web_fetch_tool_result") {
    const { content } = each as z.infer<typeof fetchResult>;
    if (content.type === "web_fetch_result") collectMedia(content.content as z.infer<typeof documentBlock>, media);
  } else if (each.type === "document") {
    const { source } = each as z.infer<typeof documentBlock>;
    if (source.type === "base64") media.documents.push(source.data);
    if (source.type !== "content" || typeof source.content === "string") return;
    for (const part of source.content) {
      if (part.type === "image" && isObject(part.source)) media.images.push(part.source);
    }
  }
}
