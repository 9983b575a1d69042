//! Runs a fuzz target on files: `cargo run -p ccnic-fuzz --example replay -- TARGET FILE ...`, with a debugger's view and no fuzzer.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("give a target and files")?;
    let (_, target) =
        *ccnic_fuzz::TARGETS.iter().find(|(known, _)| *known == name).ok_or("no such target")?;
    for file in args {
        target(&std::fs::read(&file)?);
        println!("{file} passes");
    }
    Ok(())
}
