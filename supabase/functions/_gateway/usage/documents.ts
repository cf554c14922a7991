import { Buffer } from "node:buffer";
import { countPdfPages, type ReadBudget } from "./pdf-pages.ts";

/** Number of bytes of text that admission counts as one token. */
export const bytesPerReservedToken = 3;

/**
 * The tokens of documents: an estimate, and the most that a provider may count. `isMeasured` is false if a document's
 * length could not be read, so that the maximum of its size applies.
 */
export type DocumentTokens = { estimate: number; maximum: number; isMeasured: boolean };

/**
 * Tokens of a PDF's page. Models get its text and its picture. Anthropic documents 1,500 to 3,000 tokens of text
 * (https://platform.claude.com/docs/en/build-with-claude/pdf-support) and up to 4,784 for a picture
 * (https://platform.claude.com/docs/en/build-with-claude/vision). Measured pages have 1,600 (scanned) to 2,481 tokens
 * (https://huggingface.co/datasets/JOHNISKING/pdf-token-cost). OpenAI's and Gemini's pages have fewer.
 */
const tokensPerPage = { estimate: 2_000, maximum: 7_784 } as const;
/**
 * The most pages of a request that a provider accepts, which is Gemini's limit
 * (https://ai.google.dev/gemini-api/docs/document-processing). Anthropic accepts up to 600.
 */
const maxPages = 1_000;
/** Bytes of a page: at least for its object and an almost empty stream, and usually. */
const pageBytes = { min: 200, usual: 50_000 } as const;

/** How many bytes of a request's documents are read, unpacked and searched to count their pages. */
const maxReadBytes = 4 * 1024 * 1024;
/** How much of a document is read to recognize its format, in bytes. */
const headBytes = 1_024;

/** Returns the tokens of a request's documents, each of which is base64 or a data URL. */
export function estimateDocumentTokens(documents: readonly string[]): DocumentTokens {
  const budget = { left: maxReadBytes };
  const counted = documents.map((document) => tokensOf(document, budget));
  return {
    estimate: counted.reduce((sum, { estimate }) => sum + estimate, 0),
    maximum: counted.reduce((sum, { maximum }) => sum + maximum, 0),
    isMeasured: counted.every(({ isMeasured }) => isMeasured),
  };
}

function tokensOf(data: string, budget: ReadBudget): DocumentTokens {
  const head = /^data:[^,]{0,256},/i.exec(data)?.[0] ?? "";
  const content = data.slice(head.length);
  if (head !== "" && !/;base64,$/i.test(head)) return textTokens(Buffer.byteLength(content));
  const base64 = /\s/.test(content) ? content.replace(/\s+/g, "") : content;
  const bytes = Math.ceil((base64.length * 3) / 4);
  const begin = Buffer.from(base64.slice(0, Math.ceil(headBytes / 3) * 4), "base64");
  if (begin.includes("%PDF-") || /pdf/i.test(head)) {
    const pages = countPdfPages(base64, budget);
    const maxCount = Math.min(pages ?? Math.ceil(bytes / pageBytes.min), maxPages);
    const usualCount = Math.min(pages ?? Math.ceil(bytes / pageBytes.usual), maxPages);
    return {
      estimate: usualCount * tokensPerPage.estimate,
      maximum: maxCount * tokensPerPage.maximum,
      isMeasured: pages !== undefined,
    };
  }
  if (!begin.includes(0)) return textTokens(bytes);
  // Only the text of a packed document is read, and packed text has about one byte for each token.
  return { estimate: Math.ceil(bytes / 4), maximum: bytes, isMeasured: false };
}

function textTokens(bytes: number): DocumentTokens {
  return { estimate: Math.ceil(bytes / 4), maximum: Math.ceil(bytes / bytesPerReservedToken), isMeasured: true };
}
