import { createHash } from "node:crypto";
import { blocksOf, type PromptRequest } from "./messages-request.ts";
import { countTokens } from "./usage.ts";

/** The tokens of a prompt that are read from the cache and written to it. */
export type CacheUse = { read: number; write5m: number; write1h: number; prefix: number };

export type PromptCache = { use: (request: PromptRequest) => CacheUse };

type Mark = { prefix: string; ttl: string };

/**
 * Caches prompts as Anthropic documents it (https://platform.claude.com/docs/en/build-with-claude/prompt-caching). Each
 * `cache_control` ends a prefix of tools, system and messages. A call reads the longest cached prefix. It writes the
 * marked parts after that prefix, which count as 5-minute or 1-hour writes. Unlike at Anthropic, cached prefixes never
 * expire, and short prompts are cached too.
 */
export function createPromptCache(): PromptCache {
  const cached = new Set<string>();
  return {
    use(request) {
      const marks = marksOf(request);
      const keys = marks.map(({ prefix }) => createHash("sha256").update(request.model).update(prefix).digest("hex"));
      const readAt = keys.findLastIndex((key) => cached.has(key));
      const lengths = marks.map(({ prefix }) => countTokens(prefix));
      const use: CacheUse = { read: lengths[readAt] ?? 0, write5m: 0, write1h: 0, prefix: lengths.at(-1) ?? 0 };
      for (let at = readAt + 1; at < marks.length; at += 1) {
        const written = (lengths[at] ?? 0) - (lengths[at - 1] ?? 0);
        if (marks[at]?.ttl === "1h") use.write1h += written;
        else use.write5m += written;
      }
      for (const key of keys) cached.add(key);
      return use;
    },
  };
}

function marksOf({ tools = [], system, messages, cache_control }: PromptRequest): Mark[] {
  const blocks = [...tools, ...blocksOf(system), ...messages.flatMap(({ content }) => blocksOf(content))];
  const marks: Mark[] = [];
  let prefix = "";
  for (const [index, { cache_control: own, ...block }] of blocks.entries()) {
    prefix += JSON.stringify(block);
    const mark = own ?? (index === blocks.length - 1 ? cache_control : undefined);
    if (mark) marks.push({ prefix, ttl: mark.ttl ?? "5m" });
  }
  return marks;
}
