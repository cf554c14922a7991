import { beforeAll, describe } from "vitest";
import { z } from "zod";

const startUrl = process.env.IDENTITY_VARIANTS_URL;

type Cases = (url: () => string) => void;

/**
 * Runs cases against a second server with other settings on the same database. Equal settings share a server. Skips the
 * cases if the suite did not start the server under test.
 */
export function describeVariant(name: string, changes: Record<string, string>, cases: Cases): void {
  if (!startUrl) return;
  describe(name, () => {
    let url = "";
    beforeAll(async () => {
      const response = await fetch(startUrl, { method: "POST", body: JSON.stringify(changes) });
      const text = await response.text();
      if (!response.ok) throw new Error(text);
      url = z.object({ url: z.url() }).parse(JSON.parse(text)).url;
    });
    cases(() => url);
  });
}

/**
 * Runs cases in which the server calls hosts that are fixed in its code. The suite controls these hosts only if it
 * started the server.
 */
export function describeWithInternet(name: string, cases: () => void): void {
  if (startUrl) describe(name, cases);
}
