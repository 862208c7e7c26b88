plugins { id("com.android.application") }

android {
    namespace = "com.example.embed"
    compileSdk = 35
    defaultConfig { minSdk = 26 }
    // The library's segments are aligned to 16 kB: it is mapped out of the package, and not unpacked.
    packaging { jniLibs { useLegacyPackaging = false } }
}

dependencies { implementation(files("libs/my-model.aar")) }
