import { expect, test } from "vitest";
import { creditChangeSchema } from "./credits.ts";

const form = { reason: "Paid", amount: "1", description: "", reference: "INV-1" };

test.each(["INV-1", "Café 1", "請求書 1"])("accepts the credit reference %s", (reference) => {
  expect(creditChangeSchema.parse({ ...form, reference })).toMatchObject({ reference });
});

test.each(["INV\u200b-1", "INV-1\u00ad", "\u202eINV-1", "INV\n1", "\u200b"])(
  "refuses the credit reference %j, which contains a line break or an invisible character",
  (reference) => {
    expect(creditChangeSchema.safeParse({ ...form, reference }).error?.issues).toMatchObject([{ path: ["reference"] }]);
  },
);
