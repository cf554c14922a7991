import { expect, test } from "vitest";
import { readAppCommand } from "./command.ts";

const read = (line: string, development = false) => readAppCommand(line.split(" "), { development });
const add = "add notes --display-name Notes --reason test";

test("an app is added with exact origins", () => {
  expect(read(`${add} --origin https://notes.example.com --kind external --scope ai:use`)).toEqual({
    verb: "add",
    name: "notes",
    displayName: "Notes",
    kind: "external",
    origins: ["https://notes.example.com"],
    scopes: ["ai:use"],
    reason: "test",
  });
});

test("a name that only begins like an address of this machine is a name", () => {
  expect(read(`${add} --origin https://127.evil.example`)).toMatchObject({ origins: ["https://127.evil.example"] });
});

test.each([
  "https://notes.example.com/",
  "https://notes.example.com/path",
  "https://notes.example.com:443",
  "https://*.example.com/x",
  "HTTPS://notes.example.com",
  "ftp://notes.example.com",
  "notes.example.com",
])("%s is no whole origin", (origin) => {
  expect(() => read(`${add} --origin ${origin}`)).toThrow("whole origin");
});

test.each([
  "http://localhost:3100",
  "http://notes.gatehouse.localhost:3100",
  "http://127.0.0.1:3100",
  "http://[::1]:3100",
])("%s is for development only", (origin) => {
  expect(() => read(`${add} --origin ${origin}`)).toThrow("development only");
  expect(read(`${add} --origin ${origin}`, true)).toMatchObject({ origins: [origin] });
});

test.each([
  "add notes --display-name Notes --origin https://a.example",
  "add Notes --display-name Notes --origin https://a.example --reason x",
  "add notes --display-name Notes --reason x",
  "rotate-secret notes --overlap 86401 --reason x",
  "rotate-secret notes --overlap -1 --reason x",
  "link notes --workspace 1 --reason x",
  "enable notes",
  "enable notes more --reason x",
  "remove notes --reason x",
  "",
])("%j is refused with what to write", (line) => {
  expect(() => read(line)).toThrow();
});

test("the overlap of a rotation is none unless said, and a day at most", () => {
  expect(read("rotate-secret notes --reason x")).toMatchObject({ overlapSeconds: 0 });
  expect(read("rotate-secret notes --overlap 86400 --reason x")).toMatchObject({ overlapSeconds: 86_400 });
});

test("without a command the usage is all that is said", () => {
  expect(() => readAppCommand([], { development: false })).toThrow(/^npm run app -- list/);
});

test("a command without the app's name says what a name is", () => {
  expect(() => read("disable --reason test")).toThrow(/^a name is 2 to 40 of a–z,/);
});
