import { z } from "zod";
import { isObject } from "../structured/canonical.ts";

const storedFileCure = "A stored file may be another tenant's: send its content.";

/** The source of an image: data in the request, or a URL. */
const imageSource = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("base64"), media_type: z.string(), data: z.string() }),
  z.looseObject({ type: z.literal("url"), url: z.string().regex(/^https:\/\//, "must be an https URL") }),
  z.looseObject({ type: z.literal("file"), file_id: z.never({ error: storedFileCure }) }),
]);
export const imageBlock = z.looseObject({ type: z.literal("image"), source: imageSource });

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
  z.looseObject({ type: z.literal("file"), file_id: z.never({ error: storedFileCure }) }),
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

export const message = z.looseObject({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([z.string(), z.array(block)]),
});

export const system = z.union([z.string(), z.array(textBlock)]);

/** Returns all images of a request, including those in tool results and documents. */
export function imagesIn(messages: readonly z.infer<typeof message>[]): z.infer<typeof imageBlock>["source"][] {
  return messages.flatMap(({ content }) => (typeof content === "string" ? [] : content.flatMap(imagesOfBlock)));
}

type Block = z.infer<typeof block> | z.infer<typeof resultBlock>;

function imagesOfBlock(each: Block): z.infer<typeof imageBlock>["source"][] {
  if (each.type === "image") return [(each as z.infer<typeof imageBlock>).source];
  if (each.type === "tool_result") {
    const { content } = each as z.infer<typeof toolResult>;
    return Array.isArray(content) ? content.flatMap(imagesOfBlock) : [];
  }
  if (each.type === "web_fetch_tool_result") {
    const { content } = each as z.infer<typeof fetchResult>;
    return content.type === "web_fetch_result" ? imagesOfBlock(content.content as z.infer<typeof documentBlock>) : [];
  }
  if (each.type !== "document") return [];
  const { source } = each as z.infer<typeof documentBlock>;
  if (source.type !== "content" || typeof source.content === "string") return [];
  return source.content.flatMap((part) => (part.type === "image" && isObject(part.source) ? [part.source] : []));
}
