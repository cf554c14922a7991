import { expect, test } from "vitest";
import { describeConfirmation } from "./change-form.tsx";

test("a confirmation quotes the text to type and says what the text is, such as a workspace's name", () => {
  expect(describeConfirmation({ text: "acme", what: "the workspace’s name" })).toEqual({
    label: "Type “acme” to confirm",
    hint: "This is the workspace’s name.",
  });
});

test("a confirmation with a custom label has no hint and does not quote the text to type", () => {
  const label = "Type the plan’s ID again to confirm";
  expect(describeConfirmation({ label })).toEqual({ label });
});
