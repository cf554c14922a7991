import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { EmailAddress } from "./address.tsx";

test.for([
  ["ada.byron@mail.example.test", "ada.|byron|@mail.|example.|test"],
  ["You are signed in as ada@a.test. It is 0.5 of it.", "You are signed in as ada|@a.|test. It is 0.5 of it."],
  ["No address in 0.5 of it", "No address in 0.5 of it"],
  ["", ""],
] as const)("breaks an email before its @ and after its dots, and leaves other words whole: %s", ([text, broken]) => {
  const [, shown] = />(.*)<\/span>$/.exec(renderToStaticMarkup(createElement(EmailAddress, null, text))) ?? [];
  expect(shown?.replaceAll("<wbr/>", "|")).toBe(broken);
});

test("keeps an email's domain on one line if `whole` is set", () => {
  const text = "Continue as ada.b-c@north-lights.example.test";
  const markup = renderToStaticMarkup(EmailAddress({ whole: true, children: text }));
  expect(markup).toBe(
    '<span class="wrap-anywhere">Continue as ada.<wbr/>b-c<wbr/>@nort<span class="whitespace-nowrap">h-l</span>ights.example.test</span>',
  );
});

test("keeps a masked email on one line if that is requested", () => {
  const markup = renderToStaticMarkup(EmailAddress({ whole: true, children: "We emailed r•••@lights.example.test." }));
  expect(markup).not.toContain("<wbr/>");
});
