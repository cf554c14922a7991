import { expect, test } from "vitest";
import { supportHref } from "./failed-request.tsx";

test.each([
  ["mailto:help@example.com", "a&b c", "mailto:help@example.com?subject=Request%20a%26b%20c"],
  ["https://example.com/help?from=app", "1", "https://example.com/help?from=app"],
])("the link to support %s names the request in an email's subject only", (support, requestId, href) => {
  expect(supportHref(support, requestId)).toBe(href);
});
