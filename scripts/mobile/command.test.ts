import { expect, test } from "vitest";
import { readMobileCommand } from "./command.ts";

const id = "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b";
const origin = "https://gatehouse.example";
const link = `${origin}/qr/open#${id}.s-e_cret`;
const device = {
  name: "Command-line phone",
  platform: "android",
  appLock: true,
  localAuthentication: "passcode",
};
const sessionFile = ".local/mobile-session.json";

test.each([
  [["sign-in", "ada@example.com"], { verb: "sign-in", email: "ada@example.com", code: null }],
  [["sign-in", "ada@example.com", "--code", "123 456"], { verb: "sign-in", email: "ada@example.com", code: "123456" }],
  [["whoami"], { verb: "whoami" }],
  [["models", "--workspace", id], { verb: "models", workspaceId: id }],
  [["chat", "Hello", "there"], { verb: "chat", text: "Hello there", model: "demo-chat", workspaceId: null }],
  [["speak", "Hi", "--file", "a.wav"], { verb: "speak", text: "Hi", voice: null, file: "a.wav", workspaceId: null }],
  [["qr", "show", link], { verb: "qr-show", origin, id, secret: "s-e_cret" }],
  [["qr", "approve", link], { verb: "qr", approve: true, origin, id, secret: "s-e_cret", device }],
  [["qr", "reject", link], { verb: "qr", approve: false, origin, id, secret: "s-e_cret", device }],
  [["approve-device", "WDJB-MJHT"], { verb: "device", approve: true, userCode: "WDJB-MJHT", device }],
  [["deny-device", "wdjb", "mjht"], { verb: "device", approve: false, userCode: "wdjbmjht", device }],
  [["mfa", "list"], { verb: "mfa-list" }],
  [
    ["mfa", "approve", id, "--pair-code", "012 345"],
    { verb: "mfa-answer", approve: true, id, pairCode: "012345", device },
  ],
  [["mfa", "reject", id], { verb: "mfa-answer", approve: false, id, pairCode: "", device }],
])("parses the command %j", (argv, command) => {
  expect(readMobileCommand(argv)).toEqual({ ...command, sessionFile });
});

test("an approval with --unlock none reports neither an app lock nor local authentication", () => {
  expect(readMobileCommand(["qr", "approve", link, "--unlock", "none", "--device", "Ada's"])).toMatchObject({
    device: { name: "Ada's", appLock: false, localAuthentication: "none" },
  });
});

test.each([
  [["sign-in"], "name the email"],
  [["sign-in", "ada@example.com", "--code", "12345"], "6 digits"],
  [["whoami", "now"], "one thing too many"],
  [["chat"], "Say what"],
  [["chat", "Hi", "--workspace", "mine"], "takes an id"],
  [["qr", link], "approve or reject"],
  [["qr", "show", `/qr/open#${id}.s`], "not the link of a QR code"],
  [["qr", "approve", `${origin}/qr/open`], "not the link of a QR code"],
  [["qr", "approve", `${origin}/qr#${id}.s`], "not the link of a QR code"],
  [["qr", "approve", `/qr/open#${id}.s`], "not the link of a QR code"],
  [["qr", "approve", `https://evil.example/?${link}`], "not the link of a QR code"],
  [["qr", "approve", `https://evil.example/${link}`], "not the link of a QR code"],
  [["qr", "approve", `https://evil@gatehouse.example/qr/open#${id}.s`], "not the link of a QR code"],
  [["qr", "approve", `mailto:/qr/open#${id}.s`], "not the link of a QR code"],
  [["qr", "approve", link, "--unlock", "face"], "--unlock"],
  [["approve-device"], "Enter the code"],
  [["mfa", "approve", id], "6 digits"],
  [["mfa", "approve", "1", "--pair-code", "123456"], "mfa list"],
  [["mfa", "approve", link, "--pair-code", "123456"], "mfa list"],
  [["mfa", "approve", id, "--pair-code", "12345"], "6 digits"],
  [["dance"], "no such command"],
  [[], "Say what to do"],
  [["whoami", "--unknown"], "Unknown option"],
])("refuses the command %j with an explanation", (argv, words) => {
  expect(() => readMobileCommand(argv)).toThrow(words);
});
