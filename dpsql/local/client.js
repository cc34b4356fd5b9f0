// People answer in their browser: what leaves it was drawn by a public law (`dpsql help local`).

const GRID = 2 ** 32
const DAY = 86_400_000
const random = (n) => crypto.getRandomValues(new Uint8Array(n))
const gcd = (a, b) => (b ? gcd(b, a % b) : a)
const nano = (epsilon) => Math.round(Number(epsilon) * 1e9)

/** A uniform integer below a bound, without rounding: whole numbers up to 2^53 are exact. */
function below(bound, take) {
  const last = GRID - (GRID % bound)
  for (;;) {
    const word = take(4).reduce((sum, byte) => sum * 256 + byte, 0)
    if (word < last) return word % bound
  }
}

/** What is reported of the value at the place `truth`; `take(n)` gives n random bytes. */
export function report({ mechanism, values, p, q }, truth, take = random) {
  const bound = (p[1] / gcd(p[1], q[1])) * q[1]
  const [own, other] = [p, q].map(([part, whole]) => part * (bound / whole))
  if (mechanism === 'oue' || mechanism === 'unary') {
    return values.map((_, n) => (below(bound, take) < (n === truth ? own : other) ? 1 : 0)).join('')
  }
  const drawn = below(bound, take)
  if (drawn < own) return values[truth]
  const place = Math.floor((drawn - own) / other)
  return values[place + (place >= truth ? 1 : 0)]
}

/** The value of a question about clicks, seconds: its values are buckets, from the lowest. */
export const bucket = ({ values }, number, ends) => values[ends.filter((e) => number >= e).length]

/** The value of a question whose values are cells of a grid, row by row from below; the edge takes
 *  what is beyond. */
export function cell({ values }, x, y, [left, bottom, right, top], columns) {
  const rows = values.length / columns
  const step = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)))
  const column = step((x - left) / (right - left), columns)
  return values[step((y - bottom) / (top - bottom), rows) * columns + column]
}

/** One person: each question is answered once, within a budget of ε for all of them. Reports wait
 *  for `batch` of them, and are posted together to `url`. */
export class Respondent {
  constructor({ budget, url, batch = 10, store = localStorage, key = 'dpsql', ...more }) {
    Object.assign(this, { budget: nano(budget), url, batch, store, key })
    this.take = more.take ?? random
    this.now = more.now ?? Date.now
    this.post = more.post ?? ((...request) => fetch(...request))
    this.load()
  }

  /** What is stored counts: another tab may have answered. */
  load() {
    const empty = '{"spent":0,"answers":{},"waiting":[]}'
    this.memory = JSON.parse(this.store.getItem(this.key) ?? empty)
  }

  /** What is left of the budget, in billionths of ε. */
  get left() {
    return this.budget - this.memory.spent
  }

  /** The report: that of before, or one that is drawn, charged and queued now. Throws RangeError
   *  of a value that is not listed, and where the budget does not hold it. */
  answer(question, value) {
    const truth = question.values.indexOf(String(value))
    if (truth < 0) throw new RangeError(`no value of ${question.name}`)
    this.load()
    const { answers, waiting } = this.memory
    const last = answers[question.name]
    const day = Math.floor(this.now() / DAY)
    const law = JSON.stringify(question)
    const over = last && question.days && day - last.day >= question.days
    if (last && last.law === law && !over) return last.report
    if (nano(question.epsilon) > this.left) throw new RangeError(`no budget for ${question.name}`)
    const drawn = report(question, truth, this.take)
    this.memory.spent += nano(question.epsilon)
    answers[question.name] = { report: drawn, law, day }
    waiting.push({ [question.name]: drawn })
    this.save() // before anybody sees it: it must never be drawn again
    return drawn
  }

  save() {
    this.store.setItem(this.key, JSON.stringify(this.memory))
  }

  /** Posts what waits, if that is a batch or forced, without cookies or a referrer; tried again it
   *  has the same key. What is no report any more (422) is dropped. */
  async send(force = false) {
    this.load()
    const { waiting, sending } = this.memory
    if (!waiting.length || !(sending || force || waiting.length >= this.batch)) return 0
    const [key, count] = sending ?? [random(16).join('-'), Math.min(waiting.length, 100)]
    this.memory.sending = [key, count]
    this.save()
    const headers = { 'content-type': 'application/json', 'idempotency-key': key }
    const plain = { credentials: 'omit', referrerPolicy: 'no-referrer', keepalive: true }
    const body = JSON.stringify(waiting.slice(0, count))
    const { ok, status } = await this.post(this.url, { method: 'POST', headers, body, ...plain })
    this.load()
    const mine = this.memory.sending?.[0] === key // else another tab was told
    if (!mine || !(ok || status === 422)) return 0
    this.memory.waiting.splice(0, count)
    delete this.memory.sending
    this.save()
    return ok ? count : 0
  }
}
