import type { z } from "zod";

type RawIssue = z.core.$ZodRawIssue;
type Sized = Extract<RawIssue, { code: "too_small" | "too_big" }>;

/** The subject of a message until its field is known. */
const subject = "This field";

/** The message for a field that a schema never accepts. */
export const unsupported = `${subject} is not supported.`;

/**
 * Options for zod's `parse` and `safeParse` of what clients send: every message that the schema doesn't state is one of
 * ours, never zod's.
 */
export const ourMessages = { error: describeIssue };

/** Returns a message with the field as its subject: "max_tokens must be at least 1." */
export function nameField(message: string, field: string | undefined): string {
  const named = message.replace(new RegExp(`^${subject}\\b`), field ?? subject);
  // A schema's own message may only have a predicate, for lists of settings.
  const sentence = /^(must|is|are|has|have)\b/.test(named) ? `${field ?? subject} ${named}` : named;
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

/** Returns the sentence for an issue whose schema states none, about "This field". */
export function describeIssue(issue: RawIssue): string {
  if (issue.input === undefined && issue.code !== "custom") return `${subject} is required.`;
  switch (issue.code) {
    case "invalid_type":
      if (issue.expected === "never") return unsupported;
      return `${subject} must be ${typeNames[issue.expected] ?? "of another type"}.`;
    case "too_small":
    case "too_big":
      return `${subject} must ${describeSize(issue)}.`;
    case "invalid_format":
      return `${subject} must ${describeFormat(issue)}.`;
    case "not_multiple_of":
      return `${subject} must be a multiple of ${issue.divisor}.`;
    case "unrecognized_keys":
      return `${issue.keys.length === 1 ? "Unknown field" : "Unknown fields"}: ${issue.keys.map((key) => key.slice(0, 128)).join(", ")}.`;
    case "invalid_union": {
      const { options } = issue as { options?: unknown };
      return Array.isArray(options) && options.length > 0
        ? `${subject} must be ${listValues(options)}.`
        : `${subject} has none of the accepted forms.`;
    }
    case "invalid_key":
      return `${subject} has a member with an invalid name.`;
    case "invalid_element":
      return `${subject} has an invalid member.`;
    case "invalid_value":
      return `${subject} must be ${listValues(issue.values)}.`;
    default:
      return `${subject} is not valid.`;
  }
}

const typeNames: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  bigint: "a whole number",
  boolean: "true or false",
  array: "a list",
  tuple: "a list",
  set: "a list",
  object: "an object",
  record: "an object",
  map: "an object",
  null: "null",
  undefined: "absent",
  void: "absent",
  date: "a time",
  file: "a file",
  nan: "not a number",
};

const units: Readonly<Record<string, readonly [one: string, more: string]>> = {
  string: ["character", "characters"],
  array: ["item", "items"],
  set: ["item", "items"],
  map: ["member", "members"],
  object: ["member", "members"],
  record: ["member", "members"],
  file: ["byte", "bytes"],
};

function describeSize(issue: Sized): string {
  const bound = issue.code === "too_small" ? issue.minimum : issue.maximum;
  const size = issue.origin === "date" ? new Date(Number(bound)).toISOString() : Number(bound).toLocaleString("en");
  const [one, more] = units[issue.origin] ?? [];
  if (issue.code === "too_small" && one && Number(bound) === 1) return "not be empty";
  const comparison = issue.exact
    ? "exactly"
    : issue.code === "too_small"
      ? issue.inclusive === false
        ? "more than"
        : "at least"
      : issue.inclusive === false
        ? "less than"
        : "at most";
  return one ? `have ${comparison} ${size} ${Number(bound) === 1 ? one : more}` : `be ${comparison} ${size}`;
}

const formatNames: Readonly<Record<string, string>> = {
  email: "an email address",
  url: "a URL",
  uuid: "a UUID",
  guid: "a UUID",
  datetime: "a time, such as 2026-01-31T12:00:00Z",
  date: "a date, such as 2026-01-31",
  time: "a time of day, such as 12:00:00",
  duration: "a duration, such as PT1H",
  ipv4: "an IPv4 address",
  ipv6: "an IPv6 address",
  cidrv4: "an IPv4 range",
  cidrv6: "an IPv6 range",
  mac: "a MAC address",
  base64: "base64",
  base64url: "base64url",
  json_string: "JSON",
  jwt: "a JWT",
  lowercase: "lower case",
  uppercase: "upper case",
  e164: "a telephone number, such as +15550100",
};

function describeFormat(issue: Extract<RawIssue, { code: "invalid_format" }>): string {
  const { format, prefix, suffix, includes, pattern } = issue as typeof issue & Record<string, unknown>;
  if (format === "starts_with") return `start with ${JSON.stringify(prefix)}`;
  if (format === "ends_with") return `end with ${JSON.stringify(suffix)}`;
  if (format === "includes") return `contain ${JSON.stringify(includes)}`;
  if (format === "regex" && pattern) return `match ${pattern}`;
  return `be ${formatNames[format] ?? "in the format that the API reference states"}`;
}

/** Values beyond these are left to the API reference. */
const maxListedValues = 24;

function listValues(values: readonly unknown[]): string {
  const texts = values.map((value) =>
    typeof value === "bigint" ? String(value) : (JSON.stringify(value) ?? "absent"),
  );
  if (texts.length === 1) return `${texts[0]}`;
  const listed = texts.slice(0, maxListedValues);
  return `one of ${listed.join(", ")}${listed.length < texts.length ? " or others that the API reference lists" : ""}`;
}
