import { expect, test } from "vitest";
import { formatUserCode, newUserCode, readUserCode } from "./user-code.ts";

test("a new user code has eight consonants and is accepted as it is displayed", () => {
  const codes = Array.from({ length: 200 }, newUserCode);
  for (const code of codes) {
    expect(code).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{8}$/);
    expect(readUserCode(formatUserCode(code))).toBe(code);
  }
  expect(new Set(codes).size).toBe(codes.length);
});

test("a user code is shown in two groups of four", () => {
  expect(formatUserCode("WDJBMJHT")).toBe("WDJB-MJHT");
});

test.each(["WDJB-MJHT", "wdjb-mjht", "WDJBMJHT", " wd jb mj ht ", "WDJB–MJHT", "WDJB\u00a0MJHT", "w-d-j-b-m-j-h-t"])(
  "reads %j as a user code",
  (typed) => {
    expect(readUserCode(typed)).toBe("WDJBMJHT");
  },
);

test.each(["", "WDJB-MJH", "WDJB-MJHTT", "WDJB-MJHA", "WDJB-MJH1", "WDJB.MJHT", `${" ".repeat(57)}WDJBMJHT`])(
  "does not read %j as a user code",
  (typed) => {
    expect(readUserCode(typed)).toBeNull();
  },
);

test("reads a user code of up to 64 characters", () => {
  expect(readUserCode(`${" ".repeat(56)}WDJBMJHT`)).toBe("WDJBMJHT");
});
