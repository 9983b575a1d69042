//! Audit of the native bursts' assembly: no locked instruction, division, panic, allocation or indirect call in
//! a burst; and the copies of the versions for wide registers use these.
//!
//! Reads the functions `audit_*` of `ccnic-shm/examples/bursts.rs`, as the release build makes them, with whose dependencies they are
//! compiled. Calls to the out-of-line parts of a burst, which run once in dozens of buffers or for unusual packets, are on a list.
#![cfg(target_arch = "x86_64")]

use std::path::Path;
use std::process::Command;

/// Parts of bursts that are deliberately out of line.
const OUT_OF_LINE: &[&str] = &[
    "refill",
    "spill",
    "sift",
    "drop_bad",
    "first_bytes",
    "make_way",
    "manage",
    "reap",
    "alloc_chains",
    "push_chains",
    "demote_payload",
    "tx_fill_slowly",
    "managed_room",
    "reload",
    "close_up",
    "advance",
    "first",
    "take_room",
    "gather",
    "count_dropped",
    "drop_unhanded",
    "by_rules",
    "drop_by_rule",
    "tx_small_slowly",
    "wake_nic",
    "take_chains",
    "has_bad_chain",
    "void",
    "append_all",
    "demote_lines",
    "copy_out",
    "deliver_anywhere",
    "reflect_each",
    "copy_rest",
    "transmit_mixed",
    "put_back",
    "note_kept",
    "release_kept",
    "waits_for_kept",
    "add_copy_of",
    "forget_chain",
    "no_chains",
];
/// Helpers on bursts that are not plain packets (`ring/mod.rs`), and the host-managed pool's notes of what
/// was sent.
const RARE: [&str; 4] = ["whole", "cut", "small", "note_sent"];
/// The versions of a burst for wide registers (`ccnic_shm::Vectors`), and what their registers are called. They
/// are called from the burst's own version, and audited like it.
const VERSIONS: [(&str, &str); 2] = [("4avx2", "%ymm"), ("6avx512", "%zmm")];
/// Bursts that have these versions; with those of which copy packets marked.
const IN_VECTORS: [(&str, bool); 12] = [
    ("tx", false),
    ("rx", false),
    ("send_small", true),
    ("receive_small", false),
    ("fill", true),
    ("lend", false),
    ("kept", false),
    ("fetch", false),
    ("deliver", true),
    ("spread", true),
    ("spread_across", true),
    ("deliver_handed", true),
];
/// What the standard library does: the bytes of an array of no descriptors; a sum over the descriptors of a burst.
const STANDARD: [&str; 4] =
    ["memmove@GOTPCREL", "memcpy@GOTPCREL", "memset@GOTPCREL", "slice..iter..Iter$LT$T$GT$$u20$as"];

/// Instructions that must not be in a burst.
const BANNED: [&str; 8] = ["lock", "xchg", "cmpxchg", "xadd", "div", "idiv", "mfence", "ud2"];

#[expect(clippy::expect_used, reason = "a test that cannot build its subject fails")]
fn assembly() -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the build's folder");
    let status = Command::new(env!("CARGO"))
        .args(["rustc", "--quiet", "--release", "-p", "ccnic-shm", "--example", "bursts"])
        .args(["--", "--emit", "asm", "-C", "debuginfo=0"])
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the example does not build");
    // What does not run is not what programs run.
    let run =
        Command::new(target.join("release/examples/bursts")).arg("100").status().expect("the example runs");
    assert!(run.success(), "the example fails");
    let newest = |dir: &Path| {
        let files = std::fs::read_dir(dir).expect("the examples' folder").flatten();
        let asm = files.filter(|f| {
            let name = f.file_name().to_string_lossy().into_owned();
            name.starts_with("bursts") && name.ends_with(".s")
        });
        asm.max_by_key(|f| f.metadata().and_then(|m| m.modified()).ok()).map(|f| f.path())
    };
    let path = newest(&target.join("release/examples")).expect("an assembly file");
    std::fs::read_to_string(path).expect("it can be read")
}

/// The functions whose names contain `part`: name and instructions.
fn functions<'a>(asm: &'a str, part: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut found = Vec::new();
    let mut lines = asm.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_suffix(':').filter(|n| n.starts_with('_') && n.contains(part)) else {
            continue;
        };
        let body = lines.by_ref().take_while(|l| !l.trim_start().starts_with(".cfi_endproc"));
        let code = body.map(str::trim).filter(|l| !l.starts_with(['.', '#']) && !l.is_empty());
        found.push((name, code.collect()));
    }
    found
}

/// The code of the version of a burst for wide registers, which it calls.
fn version_of<'a>(asm: &'a str, burst: &[&str], version: &str) -> Option<Vec<&'a str>> {
    // A tail call may depend on a condition.
    let (part, calls) =
        (format!("7vectors{version}"), |i: &&&str| i.starts_with("call") || i.starts_with('j'));
    let call = burst.iter().filter(calls).find(|i| i.contains(&part))?;
    let symbol = call.split(['\t', ' ', '*', '@', '(']).find(|word| word.contains(&part))?;
    functions(asm, symbol).pop().map(|(_, code)| code)
}

/// True for a store of a whole vector register to other memory than the stack.
fn stores(instruction: &str, register: &str) -> bool {
    let (from, to) = instruction.split_once(", ").unwrap_or_default();
    let (op, from) = from.split_once('\t').unwrap_or_default();
    op.starts_with("vmov") && from.starts_with(register) && to.ends_with(')') && !to.contains("%rsp")
}

/// Why an instruction is not allowed; `None` if it is.
fn judge(instruction: &str) -> Option<String> {
    let (op, operands) = instruction.split_once(char::is_whitespace).unwrap_or((instruction, ""));
    let memory = operands.contains(['(', '[']);
    if BANNED.iter().any(|b| op == *b || op.strip_suffix(['b', 'w', 'l', 'q']) == Some(b)) {
        // xchg between registers is harmless.
        return (memory || !op.starts_with("xchg")).then(|| format!("banned: {instruction}"));
    }
    // A tail call is a jump to a symbol, which may depend on a condition. Local labels start with a dot.
    let call = op.starts_with("call") || (op.starts_with('j') && !operands.starts_with('.'));
    if !call {
        return None;
    }
    // `*symbol@GOTPCREL(%rip)` is how a function of another crate is called; anything else with a star is a
    // pointer.
    let target = operands.trim_start_matches('*');
    if operands.contains('*') && !target.contains("@GOTPCREL") {
        return Some(format!("through a pointer: {instruction}"));
    }
    let known = OUT_OF_LINE.iter().chain(&RARE).any(|name| target.contains(&format!("{}{name}", name.len())));
    let known = known || VERSIONS.iter().any(|(name, _)| target.contains(&format!("7vectors{name}")));
    let known = known || STANDARD.iter().any(|name| target.contains(name));
    (!known).then(|| format!("call: {instruction}"))
}

#[test]
fn the_native_bursts_are_clean() {
    let asm = assembly();
    let mut faults = Vec::new();
    for burst in [
        "alloc",
        "free",
        "tx",
        "rx",
        "send_small",
        "receive_small",
        "fill",
        "lend",
        "kept",
        "fetch",
        "deliver",
        "complete",
        "flush",
        "spread",
        "spread_across",
        "deliver_handed",
    ] {
        let name = format!("audit_{burst}");
        let found = functions(&asm, &format!("{}{name}", name.len()));
        assert!(!found.is_empty(), "{name} is not in the assembly");
        for (symbol, code) in found {
            println!("{symbol}: {} instructions", code.len());
            assert!(code.len() > 5, "{symbol} has no body");
            faults.extend(code.iter().filter_map(|i| judge(i)).map(|fault| format!("{name}: {fault}")));
            let Some((_, copies)) = IN_VECTORS.iter().find(|(in_vectors, _)| *in_vectors == burst) else {
                continue;
            };
            for (version, register) in VERSIONS {
                let code =
                    version_of(&asm, &code, version).unwrap_or_else(|| panic!("{symbol} has no {version}"));
                println!("  {version}: {} instructions", code.len());
                faults.extend(
                    code.iter().filter_map(|i| judge(i)).map(|fault| format!("{name}, {version}: {fault}")),
                );
                let whole = code.iter().filter(|i| stores(i, register)).count();
                assert!(!copies || whole > 0, "{symbol}, {version}: no store of a whole register");
            }
        }
    }
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_audit_detects_instructions_that_are_not_allowed() {
    for bad in [
        "lock",
        "xchgq\t%rax, (%rdi)",
        "divq\t%rcx",
        "idivl\t%ecx",
        "callq\t*%rax",
        "jmpq\t*8(%rax)",
        "jmp\t*%rcx",
        "jne\t_ZN4core9panicking18panic_bounds_check17h0E",
        "callq\t*_ZN4core9panicking18panic_bounds_check17h0E@GOTPCREL(%rip)",
        "callq\t_ZN5alloc5alloc18handle_alloc_error17h0E",
        "callq\t*malloc@GOTPCREL(%rip)",
        "ud2",
        "lock\t\tcmpxchgq\t%rcx, (%rdx)",
    ] {
        assert!(judge(bad).is_some(), "{bad}");
    }
    for good in
        ["movq\t%rax, (%rdi)", "jmp\t.LBB0_3", "xchgl\t%eax, %ecx", "callq\t_ZN5ccnic4pool4Pool6refill17h0E"]
    {
        assert_eq!(judge(good), None, "{good}");
    }
}

#[test]
fn stores_of_whole_registers_are_recognised() {
    assert!(stores("vmovups\t%zmm3, (%rdx,%rbx)", "%zmm") && stores("vmovdqu64\t%zmm0, 64(%rsi)", "%zmm"));
    for other in ["vmovups\t%ymm3, (%rdx)", "vmovups\t%zmm3, 8(%rsp)", "vmovups\t(%rdx), %zmm3", "vzeroupper"]
    {
        assert!(!stores(other, "%zmm"), "{other}");
    }
}
